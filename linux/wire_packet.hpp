// SPDX-License-Identifier: GPL-2.0-only
//
// A TCP packet over IPv4 as the emulator carries it: its headers alone. All applications of a run write zeros, so the
// payload is known, and the packet that is written out is the one that was read, to the bit. That of another program in
// the namespaces keeps its payload.
#ifndef BBRGYM_LINUX_WIRE_PACKET_HPP
#define BBRGYM_LINUX_WIRE_PACKET_HPP

#include "packet_events.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace bbrgym
{

/** A range of sequence numbers, [begin, end) modulo 2^32. */
struct SequenceRange
{
    uint32_t begin;
    uint32_t end;
};

class WirePacket
{
  public:
    static constexpr std::size_t IP_HEADER_BYTES = 20; ///< Linux's TCP sends no IP options
    static constexpr std::size_t MAX_HEADER_BYTES = IP_HEADER_BYTES + 60;
    static constexpr std::size_t MAX_SACK_BLOCKS = 4;

    /** The packet that was read; nothing if it is not TCP over IPv4 without IP options and fragments. */
    static std::optional<WirePacket> Parse(std::span<const uint8_t> bytes)
    {
        constexpr uint8_t VERSION_4_WITHOUT_OPTIONS = 0x45;
        constexpr uint8_t TCP = 6;
        constexpr uint8_t HIGH_BITS_OF_FRAGMENTS = 0x3f; // more follow, and where it lies in the packet
        constexpr std::size_t MIN_BYTES = IP_HEADER_BYTES + 20;
        if (bytes.size() < MIN_BYTES || bytes[0] != VERSION_4_WITHOUT_OPTIONS || bytes[9] != TCP ||
            (bytes[6] & HIGH_BITS_OF_FRAGMENTS) != 0 || bytes[7] != 0)
        {
            return std::nullopt;
        }
        const std::size_t header_bytes = IP_HEADER_BYTES + std::size_t{4} * (bytes[IP_HEADER_BYTES + 12] >> 4);
        const std::size_t ip_bytes = std::size_t{bytes[2]} << 8 | bytes[3];
        if (header_bytes < MIN_BYTES || header_bytes > ip_bytes || ip_bytes != bytes.size())
        {
            return std::nullopt;
        }
        WirePacket packet;
        packet.m_ip_bytes = static_cast<uint16_t>(ip_bytes);
        packet.m_header_bytes = static_cast<uint8_t>(header_bytes);
        std::copy_n(bytes.begin(), header_bytes, packet.m_headers.begin());
        return packet;
    }

    /** A segment of a packet that TSO left whole: these bytes of the `payload`, from `begin` on; checksums and all. */
    WirePacket Segment(std::span<const uint8_t> payload, std::size_t begin, std::size_t bytes) const
    {
        constexpr std::size_t TCP_CHECKSUM = IP_HEADER_BYTES + 16, FLAGS = IP_HEADER_BYTES + 13;
        constexpr uint8_t CWR = 0x80, PSH_AND_FIN = 0x09;
        WirePacket segment = *this;
        segment.m_ip_bytes = static_cast<uint16_t>(m_header_bytes + bytes);
        segment.Put(2, segment.m_ip_bytes);
        segment.Put(IP_HEADER_BYTES + 4, static_cast<uint16_t>((Sequence() + begin) >> 16));
        segment.Put(IP_HEADER_BYTES + 6, static_cast<uint16_t>(Sequence() + begin));
        segment.m_headers[FLAGS] &=
            static_cast<uint8_t>(~((begin > 0 ? CWR : 0) | (begin + bytes < payload.size() ? PSH_AND_FIN : 0)));
        segment.Put(CHECKSUM, 0);
        segment.Put(TCP_CHECKSUM, 0);
        const std::span<const uint8_t> headers = segment.Headers();
        const std::span<const uint8_t> tcp = headers.subspan(IP_HEADER_BYTES);
        const uint64_t pseudo_header = Sum(headers.subspan(12, 8)) + 6 + tcp.size() + bytes;
        segment.Put(CHECKSUM, Folded(Sum(headers.first(IP_HEADER_BYTES))));
        segment.Put(TCP_CHECKSUM, Folded(pseudo_header + Sum(tcp) + Sum(payload.subspan(begin, bytes))));
        return segment;
    }

    std::span<const uint8_t> Headers() const { return {m_headers.data(), m_header_bytes}; }
    uint32_t PayloadBytes() const { return uint32_t{m_ip_bytes} - m_header_bytes; }

    uint16_t SourcePort() const { return Half(IP_HEADER_BYTES); }
    uint16_t DestinationPort() const { return Half(IP_HEADER_BYTES + 2); }
    uint32_t Sequence() const { return Word(IP_HEADER_BYTES + 4); }
    uint32_t Acknowledged() const { return Word(IP_HEADER_BYTES + 8); }
    bool IsAck() const { return (m_headers[IP_HEADER_BYTES + 13] & 0x10) != 0; }

    /** The SACK blocks of its options (RFC 2018); returns how many there are. */
    std::size_t SackBlocks(std::array<SequenceRange, MAX_SACK_BLOCKS>& blocks) const
    {
        constexpr uint8_t END = 0;
        constexpr uint8_t NO_OPERATION = 1;
        constexpr uint8_t SACK = 5;
        std::size_t at = IP_HEADER_BYTES + 20;
        while (at < m_header_bytes && m_headers[at] != END)
        {
            if (m_headers[at] == NO_OPERATION)
            {
                ++at;
                continue;
            }
            const std::size_t length = at + 1 < m_header_bytes ? m_headers[at + 1] : 0;
            if (length < 2 || at + length > m_header_bytes)
            {
                return 0;
            }
            if (m_headers[at] == SACK)
            {
                const std::size_t count = std::min((length - 2) / 8, MAX_SACK_BLOCKS);
                for (std::size_t i = 0; i < count; ++i)
                {
                    blocks[i] = {Word(at + 2 + 8 * i), Word(at + 6 + 8 * i)};
                }
                return count;
            }
            at += length;
        }
        return 0;
    }

    // What the bottleneck knows of it: see world/packet_events.hpp.
    std::size_t Flow() const { return flow; }
    uint32_t Bytes(uint32_t) const { return m_ip_bytes; }
    bool IsData() const { return PayloadBytes() > 0; }
    uint32_t Skb() const { return skb; }
    bool IsEcnCapable() const { return (m_headers[TOS] & CE) != 0; }
    bool Mark()
    {
        if ((m_headers[TOS] & CE) == CE)
        {
            return false;
        }
        const uint32_t before = Half(0);
        m_headers[TOS] |= CE;
        // RFC 1624: the checksum's complement loses the old word and gains the new one.
        uint32_t sum = (~uint32_t{Half(CHECKSUM)} & 0xffff) + (~before & 0xffff) + Half(0);
        sum = (sum & 0xffff) + (sum >> 16);
        sum = (sum & 0xffff) + (sum >> 16);
        m_headers[CHECKSUM] = static_cast<uint8_t>(~sum >> 8);
        m_headers[CHECKSUM + 1] = static_cast<uint8_t>(~sum);
        return true;
    }

    template <class Record> void Describe(Record& record, uint32_t) const { record.offset_bytes = Sequence(); }

    int64_t queued_ns = 0;                                       ///< when it reached the queue
    uint32_t flow = 0;                                           ///< index
    uint32_t skb = SKB_NUMBERS;                                  ///< see Skb
    bool is_returning = false;                                   ///< from the receiver
    std::shared_ptr<const std::vector<uint8_t>> foreign_payload; ///< null: it is of the flow, whose bytes are zeros

  private:
    static constexpr std::size_t TOS = 1;
    static constexpr std::size_t CHECKSUM = 10;
    static constexpr uint8_t CE = 3; ///< both ECN bits (RFC 3168)

    uint16_t Half(std::size_t at) const { return static_cast<uint16_t>(m_headers[at] << 8 | m_headers[at + 1]); }
    uint32_t Word(std::size_t at) const { return uint32_t{Half(at)} << 16 | Half(at + 2); }

    void Put(std::size_t at, uint16_t value)
    {
        m_headers[at] = static_cast<uint8_t>(value >> 8);
        m_headers[at + 1] = static_cast<uint8_t>(value);
    }

    /** Of the 16-bit words of an even place (RFC 1071). */
    static uint64_t Sum(std::span<const uint8_t> bytes)
    {
        uint64_t sum = 0;
        for (std::size_t i = 0; i < bytes.size(); ++i)
        {
            sum += uint64_t{bytes[i]} << (i % 2 == 0 ? 8 : 0);
        }
        return sum;
    }
    static uint16_t Folded(uint64_t sum)
    {
        while (sum > 0xffff)
        {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        return static_cast<uint16_t>(~sum);
    }

    uint16_t m_ip_bytes = 0;
    uint8_t m_header_bytes = 0;
    std::array<uint8_t, MAX_HEADER_BYTES> m_headers{};
};

} // namespace bbrgym

#endif
