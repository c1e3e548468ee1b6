// SPDX-License-Identifier: GPL-2.0-only
//
// The bottleneck that all worlds share (../world/bottleneck.hpp) as ns-3 NetDevice: packets that the node sends reach
// its queue, and what it delivers is handed to the far end. ns-3's queues and traffic-control layer are bypassed.
#ifndef BBRGYM_BOTTLENECK_DEVICE_H
#define BBRGYM_BOTTLENECK_DEVICE_H

#include "link-device.h"

#include "bottleneck.hpp"

#include <vector>

namespace ns3
{

/** A packet as the bottleneck sees it; it already carries its IP header. */
struct BottleneckPacket
{
    int64_t queued_ns = 0;
    Ptr<Packet> packet;
    std::size_t flow = 0;
    uint32_t ip_bytes = 0;
    bool has_payload = false;
    bool is_ecn_capable = false;
    bool is_marked = false;
    uint32_t skb = bbrgym::SKB_NUMBERS;
    uint64_t offset_bytes = 0; ///< this and the flags are for the packet log, unused without one
    uint16_t flags = 0;

    std::size_t Flow() const { return flow; }
    uint32_t Bytes(uint32_t) const { return ip_bytes; }
    bool IsData() const { return has_payload; }
    uint32_t Skb() const { return skb; }
    bool IsEcnCapable() const { return is_ecn_capable; }
    bool Mark();
    void Describe(bbrgym::PacketRecord& record, uint32_t) const
    {
        record.offset_bytes = offset_bytes;
        record.flags = static_cast<uint16_t>(flags | (is_marked ? bbrgym::packet_flag::ce : 0));
    }
};

class BottleneckDevice : public LinkDevice
{
  public:
    /** A packet's flow is the offset of its receiver's port from `first_port`. */
    BottleneckDevice(const bbrgym::Scenario& scenario, std::size_t link, uint64_t run_seed, uint16_t first_port,
                     bbrgym::Measurement& measurement);

    /** Where the packets of a flow come to behind the link: to their receiver, into a queue, or further to a sender. */
    void LeadToReceiver(std::size_t flow, Ptr<LinkDevice> to) { m_far_ends[flow] = {{to}, true}; }
    void LeadToQueue(std::size_t flow, Ptr<LinkDevice> to) { m_far_ends[flow] = {{to, Time(0), Time(0), true}}; }
    void LeadFurther(std::size_t flow, Ptr<LinkDevice> to, Time delay) { m_far_ends[flow] = {{to, delay, Time(0)}}; }
    void Change(const bbrgym::LinkChange& change);

    const bbrgym::Bottleneck<BottleneckPacket>& Get() const { return m_bottleneck; }

    bool Send(Ptr<Packet> packet, const Address& destination, uint16_t protocol) override;

  protected:
    void DoDispose() override;

  private:
    struct FarEnd
    {
        Path path;
        bool is_receiver = false;
    };

    BottleneckPacket Seen(Ptr<Packet> packet) const;
    void ScheduleService();
    void Serve();

    bbrgym::Bottleneck<BottleneckPacket> m_bottleneck;
    bbrgym::Measurement& m_measurement;
    uint16_t m_first_port;
    std::vector<FarEnd> m_far_ends;      ///< of each flow
    std::vector<bool> m_have_timestamps; ///< the flows
    bool m_loses_skbs;
    EventId m_service;
};

} // namespace ns3

#endif
