// SPDX-License-Identifier: GPL-2.0-only
//
// A log of every packet of a run and of every ACK's decision, off unless asked for: the same rows in every world. The
// caller takes what has been written after each interval, so that a long run needs no more memory than a short one.
#ifndef BBRGYM_WORLD_PACKET_LOG_HPP
#define BBRGYM_WORLD_PACKET_LOG_HPP

#include "ack_record.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace bbrgym
{

enum class PacketEvent : uint8_t
{
#define PACKET_EVENT(name, meaning) name,
#include "packet_log.def"
};

/** A code of packet_log.def; the codes are 0, 1, ... */
struct PacketCode
{
    std::string_view name;
    std::string_view meaning;
};

inline constexpr PacketCode PACKET_EVENTS[] = {
#define PACKET_EVENT(name, meaning) {#name, meaning},
#include "packet_log.def"
};

/** In the order of their bits, from the lowest on. */
inline constexpr PacketCode PACKET_FLAGS[] = {
#define PACKET_FLAG(name, meaning) {#name, meaning},
#include "packet_log.def"
};

namespace packet_flag
{

enum Bit : uint16_t
{
#define PACKET_FLAG(name, meaning) BIT_OF_##name,
#include "packet_log.def"
};

#define PACKET_FLAG(name, meaning) inline constexpr uint16_t name = 1U << BIT_OF_##name;
#include "packet_log.def"

} // namespace packet_flag

/** What happened to a packet. Offsets count a flow's payload from its first byte on. */
struct PacketRecord
{
    static constexpr std::size_t MAX_BLOCKS = 4;

    int64_t time_ns = 0;
    uint64_t offset_bytes = 0; ///< of the first byte that it carries
    uint64_t acked_bytes = 0;  ///< of an ACK: everything below has arrived
    uint64_t window_bytes = 0; ///< of an ACK: room that it announces beyond that
    uint32_t flow = 0;
    uint32_t payload_bytes = 0;
    uint32_t queue_bytes = 0; ///< queued, dequeued and queue_dropped: in the queue afterwards
    uint16_t flags = 0;
    PacketEvent event = PacketEvent::sent;
    uint8_t block_count = 0;
    std::array<std::array<uint64_t, 2>, MAX_BLOCKS>
        blocks{}; ///< of an ACK: begin and end, the first may report a duplicate
};

/** An ACK's decision. */
struct DecisionRecord
{
    int64_t flow;
    int64_t after; ///< so many rows of packets precede it, of those taken with it
    AckRecord ack;
};

class PacketLog
{
  public:
    bool IsOn() const { return m_is_on; }
    /** Logs from now on, the beginning of a run. */
    void Begin(std::size_t flows)
    {
        Clear();
        m_is_on = true;
        m_flows.resize(flows);
    }
    void Clear()
    {
        m_is_on = false;
        m_flows.clear();
        m_packets.clear();
        m_decisions.clear();
    }

    void Add(const PacketRecord& record) { m_packets.push_back(record); }

    /** A packet leaves a sender: notes whether all it carries was sent before. */
    void Sent(PacketRecord record)
    {
        FlowPart& flow = m_flows[record.flow];
        const bool is_syn = (record.flags & packet_flag::syn) != 0;
        const uint64_t end = record.offset_bytes + record.payload_bytes;
        const bool carried =
            is_syn ? std::exchange(flow.has_sent_syn, true) : record.payload_bytes > 0 && end <= flow.sent_bytes;
        flow.sent_bytes = std::max(flow.sent_bytes, end);
        record.event = PacketEvent::sent;
        record.flags |= carried ? packet_flag::retransmission : 0;
        Add(record);
    }

    /** The sender marked segments lost, and its timer has fired so often. */
    void MarkedLost(int64_t time_ns, std::size_t flow, std::span<const uint64_t> seqnos, uint32_t mss_bytes,
                    uint64_t timeouts)
    {
        PacketRecord record{.time_ns = time_ns, .flow = static_cast<uint32_t>(flow)};
        if (timeouts > std::exchange(m_flows[flow].timeouts, timeouts))
        {
            record.event = PacketEvent::timeout;
            Add(record);
        }
        record.event = PacketEvent::marked_lost;
        record.payload_bytes = mss_bytes;
        for (const uint64_t seqno : seqnos)
        {
            record.offset_bytes = seqno * mss_bytes;
            Add(record);
        }
    }

    void Decided(std::size_t flow, const AckRecord& ack)
    {
        m_decisions.push_back({static_cast<int64_t>(flow), static_cast<int64_t>(m_packets.size()), ack});
    }

    /** The offset with these low bits that is nearest to what the flow has sent. */
    uint64_t Widened(std::size_t flow, uint32_t low) const
    {
        const auto sent = static_cast<int64_t>(m_flows[flow].sent_bytes);
        return static_cast<uint64_t>(
            std::max<int64_t>(sent + static_cast<int32_t>(low - static_cast<uint32_t>(sent)), 0));
    }

    /** The rows since the last Drain. */
    std::span<const PacketRecord> Packets() const { return m_packets; }

    /** What was written since the last call. */
    std::pair<std::vector<PacketRecord>, std::vector<DecisionRecord>> Drain()
    {
        return {std::exchange(m_packets, {}), std::exchange(m_decisions, {})};
    }

  private:
    struct FlowPart
    {
        uint64_t sent_bytes = 0; ///< each byte once
        uint64_t timeouts = 0;
        bool has_sent_syn = false;
    };

    bool m_is_on = false;
    std::vector<FlowPart> m_flows;
    std::vector<PacketRecord> m_packets;
    std::vector<DecisionRecord> m_decisions;
};

} // namespace bbrgym

#endif
