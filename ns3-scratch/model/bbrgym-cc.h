// SPDX-License-Identifier: GPL-2.0-only
//
// The algorithms of cc/ as ns-3 congestion control, one TypeId a variant (ns3::TcpBbrgymBbq, ...), with an
// attribute for each tunable the variant has.
//
// On a TcpLinuxSocket the socket drives the controller directly and hands over Linux's own measurements.
// On ns-3's TcpSocketBase the methods of TcpCongestionOps are called instead; StockSampler then repairs
// what ns-3's rate sample gets wrong as far as that can be done from outside the socket.
#ifndef BBRGYM_CC_NS3_H
#define BBRGYM_CC_NS3_H

extern "C" {
#include "cc.h"
}

#include "stock-sampler.h"

#include "ns3/tcp-congestion-ops.h"

#include <optional>
#include <string>

namespace ns3
{

class TcpBbrgym : public TcpCongestionOps
{
  public:
    static TypeId GetTypeId();
    /** TypeId of a variant by its name ("bbr-plus"); std::invalid_argument if there is none. */
    static TypeId VariantTypeId(const std::string& name);

    explicit TcpBbrgym(int variant);

    std::string GetName() const override;

    void SetParams(const cc_params& params) { m_params = params; }
    const cc_params& GetParams() const { return m_params; }
    const cc_state& GetState() const { return m_state; }
    /** Seed of the controller's random draws; without it each socket gets a stream of its own. */
    void SetRngSeed(uint64_t seed) { m_rng_seed = seed; }

    // What a TcpLinuxSocket calls.
    void Start(cc_start start);
    bool Started() const { return m_started; }
    void OnAck(const cc_sample& sample) { cc_on_ack(&m_state, &m_params, &sample); }
    void OnPacketLost(const cc_lost_packet& lost) { cc_on_packet_lost(&m_state, &m_params, &lost); }
    void OnProbeRepair(uint64_t now_us, uint64_t delivered_pkts, bool is_app_limited);
    void OnLossState(cc_ca_state state, uint32_t in_flight_pkts);
    void OnRto(bool is_new_episode, uint32_t prior_in_flight_pkts, uint32_t in_flight_pkts, uint64_t total_lost_pkts);
    void OnIdle(uint64_t idle_us, uint64_t rto_us);
    void OnCwndUnderused(uint32_t used_pkts);
    void OnRestart(uint64_t now_us, bool app_limited);
    void OnUndo();
    /** Shows window, pacing rate and threshold in the socket's state, where ns-3 looks for them. */
    void Publish(Ptr<TcpSocketState> tcb) const;

    // What ns-3's TcpSocketBase calls.
    uint32_t GetSsThresh(Ptr<const TcpSocketState> tcb, uint32_t bytes_in_flight) override;
    void CongestionStateSet(Ptr<TcpSocketState> tcb, TcpSocketState::TcpCongState_t state) override;
    void CwndEvent(Ptr<TcpSocketState> tcb, TcpSocketState::TcpCAEvent_t event) override;
    bool HasCongControl() const override { return true; }
    void CongControl(Ptr<TcpSocketState> tcb,
                     const TcpRateOps::TcpRateConnection& connection,
                     const TcpRateOps::TcpRateSample& sample) override;

  private:
    void StartOnStockSocket(Ptr<TcpSocketState> tcb);

    int m_variant;
    cc_params m_params{};
    cc_state m_state{};
    bool m_started = false;
    std::optional<uint64_t> m_rng_seed;
    StockSampler m_stock;
};

} // namespace ns3

#endif
