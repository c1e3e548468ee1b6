// SPDX-License-Identifier: GPL-2.0-only
//
// Segments in the network. They have sequence numbers, `seqno`: 0 for the connection's first one, then one more each.
#ifndef BBRGYM_TCP_SEGMENT_HPP
#define BBRGYM_TCP_SEGMENT_HPP

#include "ring.hpp"

#include <cstddef>
#include <cstdint>

namespace bbrgym
{

/** The segments [begin, end). */
struct SeqnoRange
{
    uint64_t begin = 0;
    uint64_t end = 0;

    bool operator==(const SeqnoRange&) const = default;
};

/** One segment that was sent and is not yet cumulatively acknowledged: 24 bytes, because there are most of them. */
struct Segment
{
    static constexpr int TIME_BITS = 48; ///< the nanoseconds of a day and a half; a run lasts a day at most

    uint64_t is_runt : 1 = false;   ///< carries less than a full segment
    uint64_t is_joined : 1 = false; ///< left in one burst with the segment before
    uint64_t sacked : 1 = false;
    uint64_t lost : 1 = false;               ///< marked lost, not (yet) delivered
    uint64_t retransmitting : 1 = false;     ///< its retransmission is in the network
    uint64_t ever_retransmitted : 1 = false; ///< its RTT says nothing (Karn)
    uint64_t app_limited : 1 = false;        ///< the sampler, see below
    uint64_t found_late : 1 = false;         ///< RACK found its latest transmission lost, and looks at it no more
    uint64_t : 64 - TIME_BITS - 8;
    int64_t sent_ns : TIME_BITS = 0; ///< of its latest transmission

    // State of the delivery-rate sampler when the segment left. Times stand behind, where a shift alone extracts them.
    uint64_t delivered_low : 64 - TIME_BITS = 0;
    int64_t first_tx_ns : TIME_BITS = 0;
    uint64_t delivered_high : 64 - TIME_BITS = 0;
    int64_t delivered_ns : TIME_BITS = 0;

    void SetDelivered(uint64_t pkts)
    {
        delivered_low = static_cast<uint16_t>(pkts);
        delivered_high = static_cast<uint16_t>(pkts >> 16);
    }
    /** Packets delivered since it left, of `pkts` by now; while it is out these are below 2^32. */
    uint32_t DeliveredSince(uint64_t pkts) const
    {
        return static_cast<uint32_t>(pkts - (uint64_t{delivered_high} << 16 | delivered_low));
    }
};

/** The segments that are not cumulatively acknowledged, in order. */
struct SegmentsOut
{
    Ring<Segment> ring;
    uint64_t una = 0; ///< sequence number of the first one

    bool Empty() const { return ring.empty(); }
    uint64_t Next() const { return una + ring.size(); } ///< the next new segment's sequence number
    Segment& At(uint64_t seqno) { return ring[seqno - una]; }
    const Segment& At(uint64_t seqno) const { return ring[seqno - una]; }
};

/** One segment leaves, for the first time or again. */
struct Transmission
{
    uint64_t seqno;
    int64_t sent_ns;

    /** Whether it left after another; of two that left together, the one further in the stream is later. */
    bool IsAfter(const Transmission& other) const
    {
        return sent_ns > other.sent_ns || (sent_ns == other.sent_ns && seqno > other.seqno);
    }
};

/** The state of the flight when a segment left, for a controller that asks for it. */
struct TxState
{
    uint64_t lost_pkts = 0;      ///< ever marked lost
    uint64_t ce_pkts = 0;        ///< ever delivered with a mark
    uint32_t in_flight_pkts = 0; ///< itself included
};

} // namespace bbrgym

#endif
