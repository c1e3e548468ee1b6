// SPDX-License-Identifier: GPL-2.0-only
//
// A cell of ns-3's lte module: an eNB and one UE, both at rest, on a frequency-division band. Friis path loss, adaptive
// modulation with HARQ, proportional-fair scheduling, and one best-effort bearer over RLC in unacknowledged mode, whose
// transmit buffer is the hop's queue. There is no core network: IP packets enter the bearer at the eNB itself.
#include "station-hop.h"

#include "ns3/boolean.h"
#include "ns3/config.h"
#include "ns3/double.h"
#include "ns3/enum.h"
#include "ns3/epc-tft.h"
#include "ns3/epc-ue-nas.h"
#include "ns3/eps-bearer-tag.h"
#include "ns3/ipv4-l3-protocol.h"
#include "ns3/lte-enb-net-device.h"
#include "ns3/lte-enb-rrc.h"
#include "ns3/lte-helper.h"
#include "ns3/lte-ue-net-device.h"
#include "ns3/lte-ue-rrc.h"
#include "ns3/node-container.h"
#include "ns3/pointer.h"
#include "ns3/string.h"
#include "ns3/uinteger.h"

namespace bbrgym
{

using namespace ns3;

namespace
{

constexpr uint32_t QUEUED_PACKET_BYTES = 1500;  // RLC counts its buffer in bytes
constexpr uint32_t RESOURCE_BLOCKS_PER_MHZ = 5; // 3GPP TS 36.101, table 5.6-1, from 5 MHz on
constexpr uint16_t SOUNDING_PERIODICITY = 40;   // ms; ns-3's default
constexpr uint8_t BEARER = 1;

class LteRadioHop : public StationHop
{
  public:
    LteRadioHop(const LteHop& spec, const Ends& ends);

  private:
    void SendDown(Ptr<Packet> packet) override;
    void SendUp(Ptr<Packet> packet) override;
    void Connected(uint64_t imsi, uint16_t cell, uint16_t rnti, uint8_t bearer);

    Ptr<LteHelper> m_helper;
    Ptr<LteEnbNetDevice> m_enb;
    Ptr<LteUeNetDevice> m_ue;
    uint16_t m_rnti = 0; ///< of the UE, once it is connected
};

LteRadioHop::LteRadioHop(const LteHop& spec, const Ends& ends)
    : StationHop(spec.queue_packets),
      m_helper(CreateObject<LteHelper>())
{
    // The RLC entities come to be when the bearer does, out of reach; only their defaults can be set.
    Config::SetDefault("ns3::LteRlcUm::MaxTxBufferSize", UintegerValue(spec.queue_packets * QUEUED_PACKET_BYTES));
    Config::SetDefault("ns3::LteRlcUm::EnablePdcpDiscarding",
                       BooleanValue(false)); // the queue drops for its length alone

    m_helper->SetSchedulerType("ns3::PfFfMacScheduler");
    m_helper->SetEnbDeviceAttribute("DlBandwidth", UintegerValue(spec.bandwidth_mhz * RESOURCE_BLOCKS_PER_MHZ));
    m_helper->SetEnbDeviceAttribute("UlBandwidth", UintegerValue(spec.bandwidth_mhz * RESOURCE_BLOCKS_PER_MHZ));
    const NetDeviceContainer enbs = m_helper->InstallEnbDevice(NodeContainer(MakeNodeAt(0)));
    const NetDeviceContainer ues = m_helper->InstallUeDevice(NodeContainer(MakeNodeAt(spec.distance_m)));
    m_enb = DynamicCast<LteEnbNetDevice>(enbs.Get(0));
    m_ue = DynamicCast<LteUeNetDevice>(ues.Get(0));
    m_enb->GetRrc()->SetAttribute("EpsBearerToRlcMapping", StringValue("RlcUmAlways"));
    m_enb->GetRrc()->SetAttribute("DefaultTransmissionMode", UintegerValue(spec.layers == 1 ? 0 : 2));
    m_helper->AssignStreams(NetDeviceContainer(enbs, ues), FIRST_STREAM);

    Deliver(m_ue, ends.down);
    Deliver(m_enb, ends.up);

    const EpsBearer best_effort(EpsBearer::NGBR_VIDEO_TCP_DEFAULT);
    m_ue->GetRrc()->SetUseRlcSm(false); // saturation mode, for a helper without a core network
    m_ue->GetRrc()->TraceConnectWithoutContext("DrbCreated", MakeCallback(&LteRadioHop::Connected, this));
    m_ue->GetNas()->ActivateEpsBearer(best_effort, EpcTft::Default()); // all that the UE sends takes the bearer
    m_helper->Attach(ues, m_enb);
    m_helper->ActivateDataRadioBearer(ues, best_effort);
}

void
LteRadioHop::Connected(uint64_t, uint16_t, uint16_t rnti, uint8_t)
{
    m_rnti = rnti;
    Connect();
}

void
LteRadioHop::SendDown(Ptr<Packet> packet)
{
    EpsBearerTag bearer(m_rnti, BEARER);
    packet->AddPacketTag(bearer);
    m_enb->Send(packet, m_ue->GetAddress(), Ipv4L3Protocol::PROT_NUMBER);
}

void
LteRadioHop::SendUp(Ptr<Packet> packet)
{
    m_ue->Send(packet, m_enb->GetAddress(), Ipv4L3Protocol::PROT_NUMBER);
}

} // namespace

extern "C" __attribute__((visibility("default"))) RadioHop*
BBRGYM_MAKE_RADIO_HOP(const LastHop& spec, RadioHop::Ends* ends)
{
    return new LteRadioHop(std::get<LteHop>(spec), *ends);
}

} // namespace bbrgym
