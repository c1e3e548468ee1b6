// SPDX-License-Identifier: GPL-2.0-only
//
// Packets in the network. All data segments are full and identified by their sequence number.
#ifndef BBRGYM_TWIN_PACKET_HPP
#define BBRGYM_TWIN_PACKET_HPP

#include "ecn.hpp"
#include "packet_events.hpp"
#include "packet_log.hpp"
#include "scenario.hpp"
#include "scoreboard.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace bbrgym
{

/**
 * A packet's sequence number, flow, ECN bits and number of its sk_buff in 64 bits: small, because it is copied most. Of
 * an ACK in a queue the number is its slot, where what it says waits, and its bytes; of data with timestamps behind
 * their first link it is a slot, too.
 */
class PacketName
{
  public:
    static constexpr int SEQNO_BITS = 44;
    static constexpr int FLOW_BITS = 11;

    PacketName() = default;
    /** `skb`: number of its sk_buff. */
    PacketName(uint64_t seqno, uint64_t flow, EcnBits ecn, uint32_t skb = 0);
    static PacketName OfAck(uint64_t slot, uint64_t bytes, uint64_t flow)
    {
        PacketName name;
        name.m_bits = slot | bytes << SLOT_BITS | flow << SEQNO_BITS;
        return name;
    }
    /** A datagram of an external flow; in a queue it is like an ACK. */
    static PacketName OfExternal(uint64_t slot, uint64_t bytes, uint64_t flow, bool is_back)
    {
        PacketName name = OfAck(slot, bytes, flow);
        name.m_bits |= IN_SLOT | (is_back ? BACK : 0);
        return name;
    }
    static constexpr uint64_t MAX_EXTERNAL_BYTES = 4028; ///< of IP: 12 bits hold them, and more in a SYN

    uint64_t Seqno() const { return m_bits & ((uint64_t{1} << SEQNO_BITS) - 1); }
    std::size_t Flow() const { return m_bits >> SEQNO_BITS & ((uint64_t{1} << FLOW_BITS) - 1); }
    bool IsData() const { return (m_bits & DATA) != 0; }
    bool IsAck() const;
    bool IsExternal() const { return (m_bits & (DATA | IN_SLOT)) == IN_SLOT; }
    /** Data of any kind of flow. */
    bool HasPayload() const { return IsData() || (m_bits & (IN_SLOT | BACK)) == IN_SLOT; }
    bool HasSlot() const { return IsAck() || (m_bits & IN_SLOT) != 0; }
    PacketName InSlot(uint64_t slot) const { return WithNumber(slot, m_bits | IN_SLOT); }
    PacketName OutOfSlot(uint64_t seqno) const { return WithNumber(seqno, m_bits & ~IN_SLOT); }
    std::size_t Slot() const { return Seqno() & ((uint64_t{1} << SLOT_BITS) - 1); }
    uint32_t AckBytes() const { return static_cast<uint32_t>(Seqno() >> SLOT_BITS); }
    uint32_t Skb() const { return IsData() ? static_cast<uint32_t>(m_bits >> SKB_SHIFT) : SKB_NUMBERS; }
    EcnBits Ecn() const { return {.ect = (m_bits & ECT) != 0, .ce = (m_bits & CE) != 0, .cwr = (m_bits & CWR) != 0}; }
    void Mark() { m_bits |= CE; }
    /** That of the packet so many further on in the same burst. */
    PacketName Ahead(uint64_t pkts) const
    {
        PacketName name = *this;
        name.m_bits += pkts;
        return name;
    }

  private:
    static constexpr int SLOT_BITS = 32;
    static constexpr uint64_t ECT = uint64_t{1} << (SEQNO_BITS + FLOW_BITS);
    static constexpr uint64_t CE = ECT << 1;
    static constexpr uint64_t CWR = ECT << 2;
    static constexpr uint64_t BACK = CWR; ///< of an external one: from the receiver
    static constexpr uint64_t DATA = ECT << 3;
    static constexpr uint64_t IN_SLOT = ECT << 4;
    static constexpr int SKB_SHIFT = SEQNO_BITS + FLOW_BITS + 5;
    static_assert(uint64_t{SKB_NUMBERS - 1} << SKB_SHIFT >> SKB_SHIFT == SKB_NUMBERS - 1);

    static PacketName WithNumber(uint64_t number, uint64_t bits)
    {
        PacketName name;
        name.m_bits = (bits >> SEQNO_BITS) << SEQNO_BITS | number;
        return name;
    }

    uint64_t m_bits = 0;
};

/** Reserved sequence numbers for the packets that carry no data. */
inline constexpr uint64_t SYN = (uint64_t{1} << PacketName::SEQNO_BITS) - 1;
inline constexpr uint64_t HANDSHAKE_ACK = SYN - 1;

inline PacketName::PacketName(uint64_t seqno, uint64_t flow, EcnBits ecn, uint32_t skb)
    : m_bits(seqno | flow << SEQNO_BITS | (seqno < HANDSHAKE_ACK ? DATA : 0) | (ecn.ect ? ECT : 0) | (ecn.ce ? CE : 0) |
             (ecn.cwr ? CWR : 0) | uint64_t{skb % SKB_NUMBERS} << SKB_SHIFT)
{}

inline bool
PacketName::IsAck() const
{
    return !IsData() && Seqno() < HANDSHAKE_ACK;
}

inline constexpr uint32_t SYN_BYTES = HEADER_BYTES + 8; ///< window scale and SACK-permitted

/** IP bytes of an ACK: with SACK blocks and timestamps as Linux aligns them. */
constexpr uint32_t
AckBytes(std::size_t sack_blocks, bool has_timestamps)
{
    const auto block_bytes = static_cast<uint32_t>(8 * sack_blocks);
    return HEADER_BYTES + (sack_blocks > 0 ? 4 + block_bytes : 0) + (has_timestamps ? TIMESTAMP_BYTES : 0);
}

/**
 * On its way to the bottleneck: packets that left together, with sequence numbers in a row. `order` is that of the
 * first one's arrival; the events of the others follow it without another between them in the order.
 */
struct TrainInPipe
{
    int64_t arrives_ns;
    uint64_t order;
    PacketName name; ///< of the first one
    uint64_t pkts;
};

/** At the bottleneck. */
struct QueuedPacket
{
    int64_t queued_ns;
    PacketName name;

    std::size_t Flow() const { return name.Flow(); }
    bool IsData() const { return name.HasPayload(); }
    bool HasSlot() const { return name.HasSlot(); }
    uint32_t Skb() const { return name.Skb(); }
    bool IsEcnCapable() const { return name.Ecn().ect; }
    bool Mark()
    {
        const bool is_new = !name.Ecn().ce;
        name.Mark();
        return is_new;
    }
    void Describe(PacketRecord& record, uint32_t full) const;
    uint32_t Bytes(uint32_t full) const { return name.IsData() ? full : BareBytes(); }
    uint32_t BareBytes() const
    {
        return name.IsAck() ? name.AckBytes() : name.Seqno() == SYN ? SYN_BYTES : HEADER_BYTES;
    }
};

/** The flags of a packet log's row. */
inline uint16_t
FlagsOf(const PacketName& name)
{
    const EcnBits ecn = name.Ecn();
    return static_cast<uint16_t>((name.Seqno() == SYN ? packet_flag::syn : 0) | (ecn.ect ? packet_flag::ect : 0) |
                                 (ecn.ce ? packet_flag::ce : 0) | (ecn.cwr ? packet_flag::cwr : 0));
}

inline void
QueuedPacket::Describe(PacketRecord& record, uint32_t full) const
{
    record.offset_bytes = name.IsData() ? name.Seqno() * (full - HEADER_BYTES) : 0;
    record.flags = FlagsOf(name);
}

/** On its way to the receiver. */
struct PacketOnLink
{
    int64_t arrives_ns;
    uint64_t order;
    QueuedPacket packet;
};

/** What an ACK says beside its SACK blocks, in one word. Not bit-fields, which compilers write one by one. */
class AckName
{
  public:
    static constexpr uint64_t SYN_ACK_BLOCKS = 15;
    static constexpr uint64_t EXTERNAL_BLOCKS = 14; ///< a datagram of an external flow, `una` is its slot

    AckName() = default;
    /** `ece`: it echoes a mark; `block_count`: at most SYN_ACK_BLOCKS, which make it a SYN-ACK. */
    AckName(uint64_t una, bool ece, std::size_t block_count)
        : m_bits(una << UNA_SHIFT | uint64_t{ece} << BLOCK_BITS | block_count)
    {}

    uint64_t Una() const { return m_bits >> UNA_SHIFT; }
    bool Ece() const { return (m_bits >> BLOCK_BITS & 1) != 0; }
    std::size_t BlockCount() const { return m_bits & SYN_ACK_BLOCKS; }

  private:
    static constexpr int BLOCK_BITS = 4;
    static constexpr int UNA_SHIFT = BLOCK_BITS + 1;

    uint64_t m_bits = 0;
};

/** On the return path to the sender; its SACK blocks wait in a pipe of their own. */
struct AckInPipe
{
    int64_t arrives_ns;
    uint64_t order;
    AckName name;
};

/** What an ACK says beside its name. */
struct AckContent
{
    std::array<SeqnoRange, MAX_SACK_BLOCKS> blocks;
    uint64_t window_end; ///< where the receive buffer is not ample
    int64_t echo_ms;     ///< where the stack has timestamps; of data, when they reached their first queue, in ns
};

/** On its way through queues, in a slot; data as an ACK of their number. */
struct AckInSlot
{
    AckName name;
    AckContent content;
};

/** Leaves the receiver; what it says is in its slot, or in its flow's pipes already. */
struct HeldAck
{
    static constexpr uint32_t IN_PIPES = std::numeric_limits<uint32_t>::max();

    uint32_t flow;
    uint32_t slot;
    AckName name;
};

} // namespace bbrgym

#endif
