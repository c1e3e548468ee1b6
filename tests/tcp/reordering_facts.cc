// SPDX-License-Identifier: GPL-2.0-only
//
// RACK's reordering window, fed with the events of its argument, a letter each. It prints the steps after each.
//
//     d: a D-SACK          a: an ACK of what left after all that was delivered by then, and so a round trip later
//     s: an ACK of what left before the window widened last
//     r: a recovery ends   u: D-SACKs undo one
//
// usage: reordering_facts EVENTS
#include "reordering_window.hpp"

#include <cstdio>

int
main(int, char** argv)
{
    constexpr uint64_t ROUND_PKTS = 10;
    bbrgym::ReorderingWindow window;
    uint64_t delivered_pkts = 0;
    for (const char* event = argv[1]; *event != '\0'; ++event)
    {
        switch (*event)
        {
        case 'd': window.OnDuplicateReport(); break;
        case 'a': delivered_pkts += ROUND_PKTS; window.OnDelivered(delivered_pkts - ROUND_PKTS, delivered_pkts); break;
        case 's': window.OnDelivered(delivered_pkts - ROUND_PKTS, delivered_pkts); break;
        case 'r': window.OnRecovered(); break;
        default: window.OnUndone();
        }
        std::printf("%u\n", window.Steps());
    }
}
