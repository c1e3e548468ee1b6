// SPDX-License-Identifier: GPL-2.0-only
//
// F-RTO and undo alone, fed with the events of the arguments, a letter each. Prints the state after each.
//
// usage: frto_facts frto EVENTS        prints whether the test goes on and whether new data is to leave
//     t: a timeout that may be spurious   r: one that may not
//     a: an ACK advances                  n: one that advances after new data left    s: a SACK of new data
//     u: a duplicate ACK after new data   f: an ACK of all
//     h: new data is held back            p: pacing's timer is over
// usage: frto_facts undo EVENTS        prints whether a recovery is proven needless: by D-SACKs, by what was delayed
//     b: a recovery begins at segment 10  x: a retransmission leaves   d: a D-SACK of segment 12   o: one of segment 5
//     g: nothing retransmitted is on the scoreboard                    e: the recovery ends
#include "frto.hpp"
#include "undo.hpp"

#include <cstdio>
#include <string_view>

namespace
{

constexpr int64_t MS = 1'000'000;

void
RunFrto(const char* events)
{
    bbrgym::Frto frto;
    int64_t now_ns = 0;
    for (; *events != '\0'; ++events)
    {
        now_ns += MS;
        switch (*events)
        {
        case 't': frto.Begin(true); break;
        case 'r': frto.Begin(false); break;
        case 'a': frto.OnAck({true, false, false, false, false}, now_ns); break;
        case 'n': frto.OnAck({true, false, false, false, true}, now_ns); break;
        case 's': frto.OnAck({false, false, true, false, true}, now_ns); break;
        case 'u': frto.OnAck({false, false, false, true, true}, now_ns); break;
        case 'f': frto.OnAck({true, true, false, false, false}, now_ns); break;
        case 'h': frto.BeforeSending(true, false, true, now_ns); break;
        default: frto.BeforeSending(false, false, true, now_ns);
        }
        std::printf("%d,%d\n", frto.IsOn(), frto.SendsNewData());
    }
}

void
RunUndo(const char* events)
{
    bbrgym::UndoState undo;
    for (; *events != '\0'; ++events)
    {
        switch (*events)
        {
        case 'b': undo.Begin(10, 0); break;
        case 'x': undo.OnRetransmitted(50 * MS); break;
        case 'd': undo.OnDuplicateReport(13, 1); break;
        case 'o': undo.OnDuplicateReport(6, 1); break;
        case 'g': undo.ForgetRetransmissions(); break;
        default: undo.End();
        }
        std::printf("%d,%d,%d\n", undo.AllWereDuplicates(), undo.WasDelayed(49), undo.WasDelayed(50));
    }
}

} // namespace

int
main(int, char** argv)
{
    std::string_view(argv[1]) == "frto" ? RunFrto(argv[2]) : RunUndo(argv[2]);
}
