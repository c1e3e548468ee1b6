// SPDX-License-Identifier: GPL-2.0-only
#include "bbrgym-cc.h"

#include "ns3-versions.h"
#include "params.hpp"

#include "ns3/double.h"
#include "ns3/log.h"
#include "ns3/rng-seed-manager.h"
#include "ns3/simulator.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <stdexcept>
#include <utility>

namespace ns3
{

NS_LOG_COMPONENT_DEFINE("TcpBbrgym");

namespace
{

/** "bbr-plus" or "bbq_alpha_us" as ns-3 writes names: "BbrPlus", "BbqAlphaUs". */
std::string
CamelCase(const std::string& name)
{
    std::string camel;
    bool start = true;
    for (const char c : name)
    {
        if (c == '-' || c == '_')
        {
            start = true;
            continue;
        }
        camel += start ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
        start = false;
    }
    return camel;
}

std::string
VariantTypeName(const std::string& variant)
{
    return "ns3::TcpBbrgym" + CamelCase(variant);
}

/** Reads and writes one tunable of a controller as a double attribute. */
class TunableAccessor : public AttributeAccessor
{
  public:
    explicit TunableAccessor(int tunable)
        : m_tunable(tunable)
    {
    }

    bool Set(ObjectBase* object, const AttributeValue& value) const override
    {
        auto* controller = dynamic_cast<TcpBbrgym*>(object);
        const auto* number = dynamic_cast<const DoubleValue*>(&value);
        if (controller == nullptr || number == nullptr)
        {
            return false;
        }
        cc_params params = controller->Params();
        bbrgym::SetTunable(params, m_tunable, number->Get());
        controller->SetParams(params);
        return true;
    }

    bool Get(const ObjectBase* object, AttributeValue& value) const override
    {
        const auto* controller = dynamic_cast<const TcpBbrgym*>(object);
        auto* number = dynamic_cast<DoubleValue*>(&value);
        if (controller == nullptr || number == nullptr)
        {
            return false;
        }
        number->Set(bbrgym::GetTunable(controller->Params(), m_tunable));
        return true;
    }

    bool HasGetter() const override { return true; }
    bool HasSetter() const override { return true; }

  private:
    int m_tunable;
};

/** Adds the variant's tunables as attributes; their initial values are the preset's. */
TypeId
WithTunables(TypeId tid, int variant)
{
    const cc_params preset = bbrgym::Preset(variant);
    const auto tunables = bbrgym::Tunables();
    for (int i = 0; i < static_cast<int>(tunables.size()); ++i)
    {
        if (!bbrgym::VariantHasTunable(variant, i))
        {
            continue;
        }
        const auto& tunable = tunables[static_cast<std::size_t>(i)];
        tid.AddAttribute(CamelCase(std::string(tunable.name)),
                         std::string(tunable.symbol) + " [" + std::string(tunable.unit) + "], " +
                             std::string(tunable.source),
                         DoubleValue(bbrgym::GetTunable(preset, i)),
                         Create<TunableAccessor>(i),
                         MakeDoubleChecker<double>(tunable.low, tunable.high));
    }
    return tid;
}

/** One ns-3 class a variant, so that scripts can name it. */
template <int VARIANT>
class TcpBbrgymVariant : public TcpBbrgym
{
  public:
    TcpBbrgymVariant()
        : TcpBbrgym(VARIANT)
    {
    }

    static TypeId GetTypeId()
    {
        static TypeId tid =
            WithTunables(TypeId(VariantTypeName(std::string(bbrgym::VariantName(VARIANT))))
                             .SetParent<TcpBbrgym>()
                             .SetGroupName("Internet")
                             .AddConstructor<TcpBbrgymVariant<VARIANT>>(),
                         VARIANT);
        return tid;
    }

    TypeId GetInstanceTypeId() const override { return GetTypeId(); }

    Ptr<TcpCongestionOps> Fork() override { return CopyObject<TcpBbrgymVariant<VARIANT>>(this); }
};

template <int... VARIANTS>
bool
RegisterAll(std::integer_sequence<int, VARIANTS...>)
{
    (TcpBbrgymVariant<VARIANTS>::GetTypeId(), ...);
    return true;
}

bool
RegisterVariants()
{
    static const bool registered = RegisterAll(std::make_integer_sequence<int, CC_VARIANT_COUNT>{});
    return registered;
}

/** Before main(), as ns-3's own classes do, so that the names are known to every script. */
const bool g_registered = RegisterVariants();

uint64_t
NowUs()
{
    return static_cast<uint64_t>(Simulator::Now().GetNanoSeconds() / 1000);
}

} // namespace

TypeId
TcpBbrgym::GetTypeId()
{
    static TypeId tid = TypeId("ns3::TcpBbrgym").SetParent<TcpCongestionOps>().SetGroupName("Internet");
    return tid;
}

TypeId
TcpBbrgym::VariantTypeId(const std::string& name)
{
    RegisterVariants();
    TypeId tid;
    if (!TypeId::LookupByNameFailSafe(VariantTypeName(name), &tid))
    {
        throw std::invalid_argument("no congestion control named \"" + name + "\"");
    }
    return tid;
}

TcpBbrgym::TcpBbrgym(int variant)
    : m_variant(variant)
{
    SetParams(bbrgym::Preset(variant));
}

std::string
TcpBbrgym::GetName() const
{
    return VariantTypeName(std::string(bbrgym::VariantName(m_variant)));
}

void
TcpBbrgym::Start(const cc_start& start)
{
    if (!m_rng_seed)
    {
        const std::string stream = "socket." + std::to_string(RngSeedManager::GetNextStreamIndex());
        m_rng_seed = cc_stream_seed(RngSeedManager::GetRun(), stream.c_str());
    }
    CcController::Init(m_params, *m_rng_seed);
    CcController::Start(start);
    m_started = true;
}

void
TcpBbrgym::Publish(Ptr<TcpSocketState> tcb) const
{
    const auto bytes = [&tcb](uint32_t pkts) {
        const uint64_t total = uint64_t{pkts} * tcb->m_segmentSize;
        return static_cast<uint32_t>(std::min<uint64_t>(total, std::numeric_limits<uint32_t>::max()));
    };
    tcb->m_cWnd = bytes(m_state.cwnd_pkts);
    tcb->m_cWndInfl = tcb->m_cWnd;
    tcb->m_ssThresh = bytes(m_state.ssthresh_pkts);
    if (m_state.pacing_Bps != UINT64_MAX)
    {
        tcb->m_pacingRate = DataRate(m_state.pacing_Bps * 8);
    }
}

// ---- on ns-3's own socket -------------------------------------------------------------------------------

void
TcpBbrgym::StartOnStockSocket(Ptr<TcpSocketState> tcb)
{
    cc_start start{};
    start.now_us = NowUs();
    start.srtt_us = bbrgym::SmoothedRttUs(*tcb);
    start.min_rtt_us = start.srtt_us == 0 ? CC_RTT_UNKNOWN_US : start.srtt_us;
    start.mss_bytes = tcb->m_segmentSize;
    start.initial_cwnd_pkts = std::max<uint32_t>(tcb->m_initialCWnd, 1);
    Start(start);
    tcb->m_pacing = m_state.pacing_Bps != UINT64_MAX;
    Publish(tcb);
}

uint32_t
TcpBbrgym::GetSsThresh(Ptr<const TcpSocketState> tcb, uint32_t)
{
    // The socket sets its window to this when recovery ends; the window before it is what Linux restores.
    return m_started ? std::max(m_state.cwnd_pkts, 2u) * tcb->m_segmentSize : tcb->m_ssThresh.Get();
}

void
TcpBbrgym::CongestionStateSet(Ptr<TcpSocketState> tcb, TcpSocketState::TcpCongState_t state)
{
    if (!m_started)
    {
        StartOnStockSocket(tcb);
    }
    const uint32_t in_flight_pkts = tcb->m_bytesInFlight / tcb->m_segmentSize;
    if (state == TcpSocketState::CA_LOSS)
    {
        OnRto(m_state.ca_state < CC_CA_RECOVERY, in_flight_pkts, 0, m_stock.TotalLostPkts());
    }
    else
    {
        OnLossState(static_cast<cc_ca_state>(state), in_flight_pkts);
    }
}

void
TcpBbrgym::CwndEvent(Ptr<TcpSocketState>, TcpSocketState::TcpCAEvent_t event)
{
    if (m_started && event == TcpSocketState::CA_EVENT_TX_START)
    {
        OnRestart(NowUs(), m_stock.SawAppLimited());
    }
}

void
TcpBbrgym::CongControl(Ptr<TcpSocketState> tcb,
                       const TcpRateOps::TcpRateConnection& connection,
                       const TcpRateOps::TcpRateSample& sample)
{
    if (!m_started)
    {
        StartOnStockSocket(tcb);
    }
    const cc_sample linux_sample = m_stock.Sample(tcb, connection, sample);
    OnAck(linux_sample);
    if (m_state.mark_app_limited)
    {
        m_stock.MarkAppLimited(linux_sample);
    }
    Publish(tcb);
    tcb->m_ssThresh = GetSsThresh(tcb, 0); // where the socket will put the window when recovery ends
}

} // namespace ns3
