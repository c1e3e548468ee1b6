// SPDX-License-Identifier: GPL-2.0-only
//
// Takes the place of world/cc_controller.hpp, by the order of include folders, where the tests compile tcp/.
#ifndef BBRGYM_TESTS_CC_CONTROLLER_HPP
#define BBRGYM_TESTS_CC_CONTROLLER_HPP

extern "C"
{
#include "cc.h"
}

#include <cstdint>

namespace bbrgym
{

/** CUBIC at a fixed pacing rate, with a count of what it was told. */
class CcController
{
  public:
    void SetPacing(uint64_t pacing_Bps) { m_state.pacing_Bps = pacing_Bps; }
    int Reductions() const { return m_reductions; }
    int Undos() const { return m_undos; }
    int UndosInRecovery() const { return m_undos_in_recovery; }

    const cc_state& State() const { return m_state; }
    bool IsLossBased() const { return true; }
    bool MaySendSingles() const { return false; }
    bool WantsTxStates() const { return false; }
    void Start(const cc_start& start) { cc_init(&m_state, &m_params, &start); }
    void OnAck(const cc_sample& sample) { cc_on_ack(&m_state, &m_params, &sample); }
    void OnPacketLost(const cc_lost_packet&) {}
    void OnProbeRepair(uint64_t, uint64_t, bool) {}
    void OnLossState(cc_ca_state state, uint32_t in_flight_pkts)
    {
        m_reductions += state == CC_CA_CWR || state == CC_CA_RECOVERY;
        cc_on_loss_state(&m_state, &m_params, state, in_flight_pkts);
    }
    void OnRto(bool is_new_episode, uint32_t prior_in_flight_pkts, uint32_t in_flight_pkts, uint64_t total_lost_pkts)
    {
        m_reductions += m_state.ca_state < CC_CA_CWR;
        cc_on_rto(&m_state, &m_params, is_new_episode, prior_in_flight_pkts, in_flight_pkts, total_lost_pkts);
    }
    void OnIdle(uint64_t idle_us, uint64_t rto_us) { cc_on_idle(&m_state, &m_params, idle_us, rto_us); }
    void OnCwndUnderused(uint32_t used_pkts) { cc_on_cwnd_underused(&m_state, &m_params, used_pkts); }
    void OnRestart(uint64_t now_us, bool app_limited) { cc_on_restart(&m_state, &m_params, now_us, app_limited); }
    void OnUndo()
    {
        ++m_undos;
        m_undos_in_recovery += m_state.ca_state == CC_CA_RECOVERY;
        cc_on_undo(&m_state, &m_params);
    }

  private:
    static cc_params CubicParams()
    {
        cc_params params{};
        params.algorithm = CC_ALGORITHM_CUBIC;
        return params;
    }

    cc_params m_params = CubicParams();
    cc_state m_state{};
    int m_reductions = 0;
    int m_undos = 0;
    int m_undos_in_recovery = 0;
};

} // namespace bbrgym

#endif
