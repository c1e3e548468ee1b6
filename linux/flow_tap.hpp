// SPDX-License-Identifier: GPL-2.0-only
//
// A connection as its packets show it: what is sent again, what each ACK says of the RTT, what becomes readable. The
// RTT samples are those that Linux takes from the same ACKs (tcp_clean_rtx_queue, tcp_ack_update_rtt), without
// the time that the packets spend inside the two hosts.
#ifndef BBRGYM_LINUX_FLOW_TAP_HPP
#define BBRGYM_LINUX_FLOW_TAP_HPP

#include "wire_packet.hpp"

#include <cstdint>
#include <deque>
#include <map>
#include <optional>

namespace bbrgym
{

class FlowTap
{
  public:
    /** A data packet leaves the sender; returns whether any of it was sent before. */
    bool Sent(const WirePacket& packet, int64_t now_ns);

    /** A data packet reaches the receiver. Returns the bytes that become readable; 0: it is behind a gap or known. */
    uint64_t Arrived(const WirePacket& packet);

    /** An ACK reaches the sender; returns its RTT sample, if it gives one. */
    std::optional<int64_t> Acknowledged(const WirePacket& packet, int64_t now_ns);

  private:
    /** A segment on its way; numbers count bytes of payload from the first one, in 64 bits. */
    struct Segment
    {
        uint64_t begin;
        uint64_t end;
        int64_t sent_ns;
        bool is_retransmitted;
        bool is_sacked;
    };

    uint64_t Unwrapped(uint32_t sequence, uint64_t near) const;
    std::deque<Segment>::iterator FirstFrom(uint64_t begin);
    std::optional<int64_t> TakeCumulative(uint64_t una, int64_t now_ns);
    std::optional<int64_t> TakeSacked(uint64_t begin, uint64_t end, int64_t now_ns);

    std::optional<uint32_t> m_first;           ///< sequence number of the first payload byte
    uint64_t m_sent_end = 0;                   ///< all before was sent
    std::deque<Segment> m_out;                 ///< sent and not acknowledged, ascending
    uint64_t m_expected = 0;                   ///< the receiver's next byte
    std::map<uint64_t, uint64_t> m_behind_gap; ///< [begin, end) received, apart from each other
};

} // namespace bbrgym

#endif
