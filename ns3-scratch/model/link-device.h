// SPDX-License-Identifier: GPL-2.0-only
//
// A one-way link as ns-3 NetDevice. LinkDevice is what every end of a link needs; DelayDevice hands packets
// to the far end after a fixed delay and without serialisation, once a gate lets them go.
#ifndef BBRGYM_LINK_DEVICE_H
#define BBRGYM_LINK_DEVICE_H

#include "ack_gate.hpp"

#include "ns3/channel.h"
#include "ns3/event-id.h"
#include "ns3/ipv4-address.h"
#include "ns3/mac48-address.h"
#include "ns3/net-device.h"
#include "ns3/node.h"
#include "ns3/nstime.h"
#include "ns3/packet.h"

#include <functional>
#include <unordered_map>

namespace ns3
{

/** Where and what a TCP packet is, read from its headers. */
struct SegmentView
{
    Ipv4Address destination;
    uint16_t source_port;
    uint16_t destination_port;
    uint32_t seq;
    uint32_t payload_bytes;
    bool is_ecn_capable; ///< ECT or CE
    bool is_marked;      ///< CE
    bool is_syn;         ///< or SYN-ACK

    static SegmentView Of(Ptr<const Packet> packet);
};

class LinkDevice : public NetDevice
{
  public:
    /** Of a packet, as its node sees it. */
    enum class Way
    {
        IN,
        OUT
    };
    using Tap = std::function<void(Way way, Ptr<const Packet> packet)>;

    /** Shows each packet that the node sends or gets, before anything is done with it. */
    void SetTap(Tap tap) { m_tap = std::move(tap); }

    /** Takes the packets that arrive; without one they are lost. */
    using Receiver = std::function<void(Ptr<Packet> packet)>;
    void SetReceiver(Receiver receiver) { m_receiver = std::move(receiver); }

    /** Hands over a packet from the far end of some link, after `delay`. */
    void ReceiveIn(Time delay, Ptr<Packet> packet);

    // NetDevice; point-to-point, no addresses to resolve, IPv4 alone.
    void SetIfIndex(uint32_t index) override { m_if_index = index; }
    uint32_t GetIfIndex() const override { return m_if_index; }
    Ptr<Channel> GetChannel() const override { return nullptr; }
    void SetAddress(Address address) override { m_address = Mac48Address::ConvertFrom(address); }
    Address GetAddress() const override { return m_address; }
    bool SetMtu(uint16_t) override { return false; }
    uint16_t GetMtu() const override { return 65535; }
    bool IsLinkUp() const override { return true; }
    void AddLinkChangeCallback(Callback<void>) override {}
    bool IsBroadcast() const override { return false; }
    Address GetBroadcast() const override { return Mac48Address::GetBroadcast(); }
    bool IsMulticast() const override { return false; }
    Address GetMulticast(Ipv4Address) const override { return Mac48Address::GetBroadcast(); }
    Address GetMulticast(Ipv6Address) const override { return Mac48Address::GetBroadcast(); }
    bool IsBridge() const override { return false; }
    bool IsPointToPoint() const override { return true; }
    bool SendFrom(Ptr<Packet> packet, const Address&, const Address& destination, uint16_t protocol) override
    {
        return Send(packet, destination, protocol);
    }
    Ptr<Node> GetNode() const override { return m_node; }
    void SetNode(Ptr<Node> node) override { m_node = node; }
    bool NeedsArp() const override { return false; }
    void SetReceiveCallback(ReceiveCallback) override {} // the node's; SetReceiver() stands for it
    void SetPromiscReceiveCallback(PromiscReceiveCallback) override {}
    bool SupportsSendFrom() const override { return false; }

  protected:
    void DoDispose() override;
    void CopyToTap(Way way, Ptr<const Packet> packet) const
    {
        if (m_tap)
        {
            m_tap(way, packet);
        }
    }

    /** One way to a device of another node. What is sent later never arrives earlier. */
    struct Path
    {
        Ptr<LinkDevice> to;
        Time delay;
        Time last_arrival;
        bool is_queue = false; ///< `to` is a bottleneck, whose queue is here

        void Deliver(Ptr<Packet> packet);
    };

  private:
    class Arrival;

    Ptr<Node> m_node;
    uint32_t m_if_index = 0;
    Mac48Address m_address;
    Receiver m_receiver;
    Tap m_tap;
};

/** Pure delay to one or more far ends, chosen by the packet's destination address. */
class DelayDevice : public LinkDevice
{
  public:
    /** Holds what is sent; before the first packet. */
    void SetGate(const bbrgym::Acks& acks) { m_gate.Reset(acks); }
    void AddPath(Ipv4Address destination, Ptr<LinkDevice> to, Time delay);
    /** What goes to the address enters a bottleneck's queue at once. */
    void AddQueue(Ipv4Address destination, Ptr<LinkDevice> bottleneck);
    /** Shows each segment that is sent, before it is on its way. */
    void SetObserver(std::function<void(const SegmentView&)> observer) { m_observer = std::move(observer); }

    bool Send(Ptr<Packet> packet, const Address& destination, uint16_t protocol) override;

  protected:
    void DoDispose() override;

  private:
    /** A packet and its way out. */
    struct Outgoing
    {
        Ptr<Packet> packet;
        Path* path = nullptr;
    };

    void OpenGate();

    std::unordered_map<uint32_t, Path> m_paths;
    bbrgym::AckGate<Outgoing> m_gate;
    EventId m_gate_event;
    std::function<void(const SegmentView&)> m_observer;
};

/** The end of a station: whatever it sends goes up the radio. */
class StationDevice : public LinkDevice
{
  public:
    /** Takes a packet that the radio delivers in the context of another node. */
    void ReceiveFromRadio(Ptr<Packet> packet);
    void SetUplink(std::function<void(Ptr<Packet>)> uplink) { m_uplink = std::move(uplink); }
    bool Send(Ptr<Packet> packet, const Address& destination, uint16_t protocol) override;

  protected:
    void DoDispose() override;

  private:
    std::function<void(Ptr<Packet>)> m_uplink;
};

} // namespace ns3

#endif
