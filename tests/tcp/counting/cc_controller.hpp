// SPDX-License-Identifier: GPL-2.0-only
//
// Takes the place of world/cc_controller.hpp, by the order of include folders, where the tests compile tcp/: CUBIC at a
// fixed pacing rate, with a count of its reductions and undos.
#ifndef BBRGYM_TESTS_CC_CONTROLLER_HPP
#define BBRGYM_TESTS_CC_CONTROLLER_HPP

#define CcController UncountedController
#include "../../../world/cc_controller.hpp"
#undef CcController

namespace bbrgym
{

class CcController : public UncountedController
{
  public:
    CcController() { m_params.algorithm = CC_ALGORITHM_CUBIC; }
    void SetPacing(uint64_t pacing_Bps) { m_state.pacing_Bps = pacing_Bps; }
    int Reductions() const { return m_reductions; }
    int Undos() const { return m_undos; }
    int UndosInRecovery() const { return m_undos_in_recovery; }

    void OnLossState(cc_ca_state state, uint32_t in_flight_pkts)
    {
        m_reductions += state == CC_CA_CWR || state == CC_CA_RECOVERY;
        UncountedController::OnLossState(state, in_flight_pkts);
    }
    void OnRto(bool is_new_episode, uint32_t prior_in_flight_pkts, uint32_t in_flight_pkts, uint64_t total_lost_pkts)
    {
        m_reductions += m_state.ca_state < CC_CA_CWR;
        UncountedController::OnRto(is_new_episode, prior_in_flight_pkts, in_flight_pkts, total_lost_pkts);
    }
    void OnUndo()
    {
        ++m_undos;
        m_undos_in_recovery += m_state.ca_state == CC_CA_RECOVERY;
        UncountedController::OnUndo();
    }

  private:
    int m_reductions = 0;
    int m_undos = 0;
    int m_undos_in_recovery = 0;
};

} // namespace bbrgym

#endif
