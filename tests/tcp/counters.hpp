// SPDX-License-Identifier: GPL-2.0-only
//
// The counters of a scoreboard equal a recount of its segments.
#pragma once

#include "program.hpp"
#include "scoreboard.hpp"

inline void
CheckCounters(const bbrgym::Scoreboard& board)
{
    uint32_t sacked = 0;
    uint32_t lost = 0;
    uint32_t retransmitting = 0;
    bool waits = false;
    for (uint64_t seqno = board.Una(); seqno < board.Next(); ++seqno)
    {
        const bbrgym::Segment& s = board.At(seqno);
        Require(!(s.sacked && (s.lost || s.retransmitting)), "a SACKed segment is neither lost nor out");
        Require(!s.retransmitting || s.ever_retransmitted, "what is out again was sent again");
        sacked += s.sacked;
        lost += s.lost;
        retransmitting += s.retransmitting;
        waits |= s.lost && !s.retransmitting;
    }
    Require(sacked == board.SackedOut(), "sacked_out equals a recount");
    Require(lost == board.LostOut(), "lost_out equals a recount");
    Require(retransmitting == board.RetransOut(), "retrans_out equals a recount");
    Require(waits != board.NothingToRetransmit(), "what waits to be sent again is known");
}
