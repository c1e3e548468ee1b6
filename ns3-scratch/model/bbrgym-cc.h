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

#include "cc_controller.hpp"
#include "stock-sampler.h"

#include "ns3/tcp-congestion-ops.h"

#include <optional>
#include <string>

namespace ns3
{

class TcpBbrgym : public TcpCongestionOps, public bbrgym::CcController
{
  public:
    static TypeId GetTypeId();
    /** TypeId of a variant by its name ("bbr-plus"); std::invalid_argument if there is none. */
    static TypeId VariantTypeId(const std::string& name);

    explicit TcpBbrgym(int variant);

    std::string GetName() const override;

    /** Seed of the controller's random draws; without it each socket gets a stream of its own. */
    void SetRngSeed(uint64_t seed) { m_rng_seed = seed; }

    // What a TcpLinuxSocket calls, beside the events.
    void Start(const cc_start& start);
    bool Started() const { return m_started; }
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
    bool m_started = false;
    std::optional<uint64_t> m_rng_seed;
    StockSampler m_stock;
};

} // namespace ns3

#endif
