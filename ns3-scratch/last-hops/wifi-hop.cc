// SPDX-License-Identifier: GPL-2.0-only
//
// A basic service set of ns-3's wifi module: an access point and one station, both at rest, at 5 GHz. Log-distance path
// loss, block ACKs with A-MPDU aggregation, the access point's best-effort queue, and either one MCS or Minstrel-HT's.
//
// IP packets enter the access point's device itself, so neither ARP nor a queue discipline stands before its queue.
#include "station-hop.h"

#include "ns3/boolean.h"
#include "ns3/ipv4-l3-protocol.h"
#include "ns3/node-container.h"
#include "ns3/queue-size.h"
#include "ns3/sta-wifi-mac.h"
#include "ns3/string.h"
#include "ns3/uinteger.h"
#include "ns3/wifi-helper.h"
#include "ns3/wifi-mac-helper.h"
#include "ns3/wifi-mac-queue.h"
#include "ns3/wifi-net-device.h"
#include "ns3/yans-wifi-helper.h"

#include <map>

namespace bbrgym
{

using namespace ns3;

namespace
{

const Time PROBE_TIMEOUT = MilliSeconds(5);
const Time LONGEST_WAIT = Seconds(100); // the queue drops for its length alone

const std::map<std::string, WifiStandard> STANDARDS = {{"n", WIFI_STANDARD_80211n},
                                                       {"ac", WIFI_STANDARD_80211ac},
                                                       {"ax", WIFI_STANDARD_80211ax}};

/** HT numbers its MCS through all streams, VHT and HE for each. */
std::string
DataMode(const WifiHop& spec)
{
    if (spec.standard == "n")
    {
        return "HtMcs" + std::to_string(*spec.mcs + 8 * (spec.streams - 1));
    }
    return (spec.standard == "ac" ? "VhtMcs" : "HeMcs") + std::to_string(*spec.mcs);
}

class WifiRadioHop : public StationHop
{
  public:
    WifiRadioHop(const WifiHop& spec, const Ends& ends);

  private:
    void SendDown(Ptr<Packet> packet) override;
    void SendUp(Ptr<Packet> packet) override;
    void Connected(Mac48Address access_point);
    static Ptr<WifiNetDevice> Install(const WifiHelper& wifi, const YansWifiPhyHelper& phy, const WifiMacHelper& mac,
                                      Ptr<Node> node);
    static void SetQueue(Ptr<WifiNetDevice> device, uint32_t packets);

    Ptr<WifiNetDevice> m_access_point;
    Ptr<WifiNetDevice> m_station;
};

WifiRadioHop::WifiRadioHop(const WifiHop& spec, const Ends& ends) : StationHop(spec.queue_packets)
{
    auto channel_helper = YansWifiChannelHelper::Default();
    YansWifiPhyHelper phy;
    phy.SetChannel(channel_helper.Create());
    phy.Set("ChannelSettings", StringValue("{0, " + std::to_string(spec.width_mhz) + ", BAND_5GHZ, 0}"));
    phy.Set("Antennas", UintegerValue(spec.streams));
    phy.Set("MaxSupportedTxSpatialStreams", UintegerValue(spec.streams));
    phy.Set("MaxSupportedRxSpatialStreams", UintegerValue(spec.streams));

    WifiHelper wifi;
    wifi.SetStandard(STANDARDS.at(spec.standard));
    if (spec.mcs)
    {
        wifi.SetRemoteStationManager("ns3::ConstantRateWifiManager", "DataMode", StringValue(DataMode(spec)),
                                     "ControlMode", StringValue("OfdmRate24Mbps"));
    }
    else
    {
        wifi.SetRemoteStationManager("ns3::MinstrelHtWifiManager");
    }

    const SsidValue ssid(Ssid("bbrgym"));
    WifiMacHelper mac;
    mac.SetType("ns3::ApWifiMac", "Ssid", ssid, "EnableBeaconJitter", BooleanValue(false));
    m_access_point = Install(wifi, phy, mac, MakeNodeAt(0));
    mac.SetType("ns3::StaWifiMac", "Ssid", ssid, "ActiveProbing",
                BooleanValue(true), // connected after some milliseconds instead of a beacon's interval
                "ProbeRequestTimeout", TimeValue(PROBE_TIMEOUT));
    m_station = Install(wifi, phy, mac, MakeNodeAt(spec.distance_m));
    const int64_t next_stream =
        WifiHelper::AssignStreams(NetDeviceContainer(m_access_point), FIRST_STREAM) + FIRST_STREAM;
    WifiHelper::AssignStreams(NetDeviceContainer(m_station), next_stream);
    SetQueue(m_access_point, spec.queue_packets);
    SetQueue(m_station, spec.queue_packets);

    Deliver(m_station, ends.down);
    Deliver(m_access_point, ends.up);
    m_station->GetMac()->TraceConnectWithoutContext("Assoc", MakeCallback(&WifiRadioHop::Connected, this));
}

Ptr<WifiNetDevice>
WifiRadioHop::Install(const WifiHelper& wifi, const YansWifiPhyHelper& phy, const WifiMacHelper& mac, Ptr<Node> node)
{
    return DynamicCast<WifiNetDevice>(wifi.Install(phy, mac, NodeContainer(node)).Get(0));
}

void
WifiRadioHop::SetQueue(Ptr<WifiNetDevice> device, uint32_t packets)
{
    const Ptr<WifiMacQueue> queue = device->GetMac()->GetTxopQueue(AC_BE);
    queue->SetMaxSize(QueueSize(QueueSizeUnit::PACKETS, packets));
    queue->SetMaxDelay(LONGEST_WAIT);
}

void
WifiRadioHop::Connected(Mac48Address)
{
    Connect();
}

void
WifiRadioHop::SendDown(Ptr<Packet> packet)
{
    m_access_point->Send(packet, m_station->GetAddress(), Ipv4L3Protocol::PROT_NUMBER);
}

void
WifiRadioHop::SendUp(Ptr<Packet> packet)
{
    m_station->Send(packet, m_access_point->GetAddress(), Ipv4L3Protocol::PROT_NUMBER);
}

} // namespace

extern "C" __attribute__((visibility("default"))) RadioHop*
BBRGYM_MAKE_RADIO_HOP(const LastHop& spec, RadioHop::Ends* ends)
{
    return new WifiRadioHop(std::get<WifiHop>(spec), *ends);
}

} // namespace bbrgym
