// SPDX-License-Identifier: GPL-2.0-only
//
// Packets in the network. All data segments are full and identified by their sequence number.
#ifndef BBRGYM_TWIN_PACKET_HPP
#define BBRGYM_TWIN_PACKET_HPP

#include "ecn.hpp"
#include "packet_log.hpp"
#include "scenario.hpp"

#include <cstddef>
#include <cstdint>

namespace bbrgym
{

/** A packet's sequence number, flow and ECN bits in 64 bits: small, because it is copied most. */
class PacketName
{
  public:
    static constexpr int SEQNO_BITS = 44;
    static constexpr int FLOW_BITS = 16;

    PacketName() = default;
    PacketName(uint64_t seqno, uint64_t flow, EcnBits ecn);

    uint64_t Seqno() const { return m_bits & ((uint64_t{1} << SEQNO_BITS) - 1); }
    std::size_t Flow() const { return m_bits >> SEQNO_BITS & ((uint64_t{1} << FLOW_BITS) - 1); }
    bool IsData() const { return (m_bits & DATA) != 0; }
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
    static constexpr uint64_t ECT = uint64_t{1} << (SEQNO_BITS + FLOW_BITS);
    static constexpr uint64_t CE = ECT << 1;
    static constexpr uint64_t CWR = ECT << 2;
    static constexpr uint64_t DATA = ECT << 3;

    uint64_t m_bits = 0;
};

/** Reserved sequence numbers for the packets that carry no data. */
inline constexpr uint64_t SYN = (uint64_t{1} << PacketName::SEQNO_BITS) - 1;
inline constexpr uint64_t HANDSHAKE_ACK = SYN - 1;

inline PacketName::PacketName(uint64_t seqno, uint64_t flow, EcnBits ecn)
    : m_bits(seqno | flow << SEQNO_BITS | (seqno < HANDSHAKE_ACK ? DATA : 0) | (ecn.ect ? ECT : 0) | (ecn.ce ? CE : 0) |
             (ecn.cwr ? CWR : 0))
{}

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
    bool IsData() const { return name.IsData(); }
    bool IsEcnCapable() const { return name.Ecn().ect; }
    bool Mark()
    {
        const bool is_new = !name.Ecn().ce;
        name.Mark();
        return is_new;
    }
    void Describe(PacketRecord& record, uint32_t full) const;
    uint32_t Bytes(uint32_t full) const
    {
        constexpr uint32_t SYN_OPTION_BYTES = 8; // window scale and SACK-permitted
        return name.IsData() ? full : name.Seqno() == SYN ? HEADER_BYTES + SYN_OPTION_BYTES : HEADER_BYTES;
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

/** Held at the gate of the ACKs; its SACK blocks are in their flow's pipe already. */
struct HeldAck
{
    std::size_t flow;
    AckName name;
};

} // namespace bbrgym

#endif
