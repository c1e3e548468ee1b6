// SPDX-License-Identifier: GPL-2.0-only
//
// An algorithm of cc/ with its parameters and state: events in, window and pacing rate out of State(). It is what a
// TcpSender (tcp/sender.hpp) drives.
#ifndef BBRGYM_WORLD_CC_CONTROLLER_HPP
#define BBRGYM_WORLD_CC_CONTROLLER_HPP

extern "C"
{
#include "cc.h"
}

#include <cstdint>

namespace bbrgym
{

class CcController
{
  public:
    void Init(const cc_params& params, uint64_t rng_seed)
    {
        SetParams(params);
        m_rng_seed = rng_seed;
    }
    /** Returns whether another algorithm is to go on from here: Switch. */
    bool SetParams(const cc_params& params)
    {
        const uint32_t former = m_params.algorithm;
        m_params = params;
        m_params.algorithm = cc_chosen_algorithm(&params);
        return m_params.algorithm != former;
    }
    const cc_params& Params() const { return m_params; }
    const cc_state& State() const { return m_state; }

    void Start(cc_start start)
    {
        start.rng_seed = m_rng_seed;
        cc_init(&m_state, &m_params, &start);
    }
    bool HasStarted() const { return m_state.initial_cwnd_pkts > 0; }
    void Switch(cc_start start, uint64_t una_pkts, uint64_t delivered_pkts)
    {
        start.rng_seed = m_rng_seed;
        cc_switch(&m_state, &m_params, &start, una_pkts, delivered_pkts);
    }
    void OnAck(const cc_sample& sample) { cc_on_ack(&m_state, &m_params, &sample); }
    void OnPacketLost(const cc_lost_packet& lost) { cc_on_packet_lost(&m_state, &m_params, &lost); }
    void OnProbeRepair(uint64_t now_us, uint64_t delivered_pkts, bool is_app_limited)
    {
        cc_on_probe_repair(&m_state, &m_params, now_us, delivered_pkts, is_app_limited);
    }
    void OnLossState(cc_ca_state state, uint32_t in_flight_pkts)
    {
        cc_on_loss_state(&m_state, &m_params, state, in_flight_pkts);
    }
    void OnRto(bool is_new_episode, uint32_t prior_in_flight_pkts, uint32_t in_flight_pkts, uint64_t total_lost_pkts)
    {
        cc_on_rto(&m_state, &m_params, is_new_episode, prior_in_flight_pkts, in_flight_pkts, total_lost_pkts);
    }
    void OnIdle(uint64_t idle_us, uint64_t rto_us) { cc_on_idle(&m_state, &m_params, idle_us, rto_us); }
    void OnCwndUnderused(uint32_t used_pkts) { cc_on_cwnd_underused(&m_state, &m_params, used_pkts); }
    void OnRestart(uint64_t now_us, bool app_limited) { cc_on_restart(&m_state, &m_params, now_us, app_limited); }
    void OnUndo() { cc_on_undo(&m_state, &m_params); }
    bool IsLossBased() const { return !cc_is_bbr(&m_params); }
    bool MaySendSingles() const { return cc_may_send_singles(&m_params); }
    bool WantsTxStates() const { return cc_wants_tx_states(&m_params); }

  protected:
    cc_state m_state{};
    cc_params m_params{};

  private:
    uint64_t m_rng_seed = 0;
};

} // namespace bbrgym

#endif
