// SPDX-License-Identifier: GPL-2.0-only
//
// Writes what leaves and reaches the hosts of a run to its log of packets, as read from the packets' headers.
#ifndef BBRGYM_PACKET_TAP_H
#define BBRGYM_PACKET_TAP_H

#include "link-device.h"

#include "packet_log.hpp"
#include "scenario.hpp"

#include <cstdint>
#include <vector>

namespace ns3
{

class PacketTap
{
  public:
    /** A packet's flow is the offset of the receiver's port from `first_port`. */
    PacketTap(const bbrgym::Scenario& scenario, uint16_t first_port, bbrgym::PacketLog& log);

    void AtSender(LinkDevice::Way way, Ptr<const Packet> packet);
    void AtReceiver(LinkDevice::Way way, Ptr<const Packet> packet);

    /** What a log says of a packet to the receiver, its event apart. */
    static bbrgym::PacketRecord DataRecord(Ptr<const Packet> packet, std::size_t flow, const bbrgym::PacketLog& log);

  private:
    void LogData(bbrgym::PacketEvent event, Ptr<const Packet> packet);
    void LogAck(bbrgym::PacketEvent event, Ptr<const Packet> packet);
    uint64_t WindowBytes(const bbrgym::PacketRecord& record, uint16_t announced) const;

    struct FlowPart
    {
        bool is_ample = false; ///< its receive buffer never limits
        uint32_t window_scale = 0;
    };

    uint64_t m_buffer_pkts;
    uint32_t m_mss_bytes;
    uint16_t m_first_port;
    bbrgym::PacketLog& m_log;
    std::vector<FlowPart> m_flows;
};

} // namespace ns3

#endif
