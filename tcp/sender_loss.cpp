// SPDX-License-Identifier: GPL-2.0-only
//
// Losses, loss states and undo (tcp_fastretrans_alert).
#include "sender.hpp"

#include <algorithm>

namespace bbrgym
{

/** Linux's tcp_fastretrans_alert. Returns the segments that were found lost. */
uint32_t
TcpSender::UpdateLossState(const AckOutcome& outcome, uint64_t prior_una, bool reports_duplicate, int64_t now_ns)
{
    const bool is_dubious =
        !outcome.UnaAdvanced() || outcome.data_sacked || m_ece || reports_duplicate; // tcp_ack_is_dubious
    if (m_ca_state == CC_CA_OPEN && !is_dubious) [[likely]]
    {
        m_board.StopReorderingTimer();
        return 0;
    }
    LeaveWhatIsOver();
    if (m_ca_state == CC_CA_RECOVERY)
    {
        return ProcessRecovery(outcome, prior_una, now_ns);
    }
    const uint64_t lost_retransmits_before = m_board.LostRetransmitTotal();
    if (m_ca_state == CC_CA_LOSS)
    {
        ProcessLoss(outcome, reports_duplicate, now_ns);
    }
    else if (m_ca_state <= CC_CA_DISORDER)
    {
        TryUndoDuplicates();
    }
    const uint32_t newly_lost = IdentifyLosses(now_ns);
    if (m_ca_state == CC_CA_LOSS && !(m_facts.loss_recovers && m_board.LostRetransmitTotal() > lost_retransmits_before))
    {
        return newly_lost;
    }
    if (m_board.LostOut() > 0)
    {
        EnterRecovery(m_ece);
    }
    else
    {
        TryToOpen();
    }
    return newly_lost;
}

/** What was out when the state began is acknowledged. */
void
TcpSender::LeaveWhatIsOver()
{
    if (m_ca_state == CC_CA_OPEN)
    {
        m_undo.ForgetRetransmissions();
    }
    else if (m_ca_state == CC_CA_CWR && m_board.Una() > m_recovery_point)
    {
        ChangeLossState(CC_CA_OPEN); // beyond the point: the receiver has seen the report of the reduction
    }
    else if (m_ca_state == CC_CA_RECOVERY && m_board.Una() >= m_recovery_point)
    {
        TryUndoRecovery();
    }
}

uint32_t
TcpSender::ProcessRecovery(const AckOutcome& outcome, uint64_t prior_una, int64_t now_ns)
{
    if (outcome.UnaAdvanced() && TryUndoPartial(prior_una))
    {
        return 0;
    }
    if (TryUndoDuplicates())
    {
        TryToOpen();
    }
    const uint32_t newly_lost = IdentifyLosses(now_ns);
    if (m_ca_state != CC_CA_RECOVERY && m_board.LostOut() > 0)
    {
        EnterRecovery(m_ece);
    }
    return newly_lost;
}

/** In the Loss state: undo, and F-RTO with SACK (RFC 5682, 3.1; tcp_process_loss). */
void
TcpSender::ProcessLoss(const AckOutcome& outcome, bool reports_duplicate, int64_t now_ns)
{
    const bool may_prove =
        m_frto.IsOn() || (m_facts.timeout_undo == timeout_undo_choice::any_original && m_undo.IsOn());
    const bool original_arrived = may_prove && outcome.first_original < m_recovery_point;
    m_frto.StopNewData();
    if (original_arrived || (outcome.UnaAdvanced() && m_undo.IsProven(m_board.EchoMs())))
    {
        UndoLoss();
        return;
    }
    const bool is_over = m_board.Una() >= m_recovery_point;
    const bool asks_for_new = m_frto.OnAck({.una_advanced = outcome.UnaAdvanced(),
                                            .ends_episode = is_over,
                                            .data_sacked = outcome.data_sacked,
                                            .is_duplicate = outcome.acked_pkts == 0 && !reports_duplicate,
                                            .has_sent_new = m_board.Next() > m_recovery_point},
                                           now_ns);
    if (!asks_for_new && is_over)
    {
        TryUndoRecovery();
    }
}

uint32_t
TcpSender::DetectLosses(int64_t now_ns)
{
    const bool looks_at_losses = m_facts.reordering_window == reordering_window_choice::while_none_lost;
    const bool is_patient = looks_at_losses ? m_board.LostOut() == 0 : m_ca_state < CC_CA_RECOVERY;
    const uint32_t lost_pkts = m_board.DetectLosses(is_patient, std::max<int64_t>(SrttNs(), 0), now_ns);
    if (lost_pkts > 0)
    {
        TellLosses(now_ns);
    }
    return lost_pkts;
}

/** By RACK, and until Linux 4.17 beside it as RFC 6675 does (tcp_update_scoreboard), but not in Loss. */
/** By RACK, and in Linux until 4.17 as RFC 6675 does, too (tcp_update_scoreboard), but not in Loss. */
uint32_t
TcpSender::IdentifyLosses(int64_t now_ns)
{
    const uint32_t lost_pkts = DetectLosses(now_ns);
    if (m_facts.reordering_window == reordering_window_choice::until_three_sacked || m_ca_state == CC_CA_LOSS)
    {
        return lost_pkts;
    }
    const uint32_t counted_pkts = m_board.DetectLossesByCount();
    if (counted_pkts > 0)
    {
        TellLosses(now_ns);
    }
    return lost_pkts + counted_pkts;
}

/** Tells the controller of each segment marked lost, where it asks for that. */
void
TcpSender::TellLosses(int64_t now_ns)
{
    if (!m_wants_tx_states)
    {
        return;
    }
    for (const LostSegment& lost : m_board.NewlyLost())
    {
        m_controller.OnPacketLost({.now_us = Us(now_ns),
                                   .delivered_pkts = m_board.Rate().Delivered(),
                                   .total_lost_pkts = lost.total_pkts,
                                   .lost_at_send_pkts = lost.at_send.lost_pkts,
                                   .tx_in_flight_pkts = lost.at_send.in_flight_pkts,
                                   .size_pkts = 1,
                                   .is_app_limited = lost.is_app_limited});
    }
    m_board.ClearNewlyLost();
}

/** Linux's tcp_try_to_open. */
void
TcpSender::TryToOpen()
{
    if (!m_board.HasRetransmissions())
    {
        m_undo.ForgetRetransmissions();
    }
    if (m_ece && m_ca_state < CC_CA_CWR)
    {
        EnterCwr();
    }
    else if (m_ca_state != CC_CA_CWR)
    {
        ChangeLossState(StateWithoutLoss());
    }
}

void
TcpSender::EnterRecovery(bool ece)
{
    if (!m_board.HasRetransmissions())
    {
        m_undo.ForgetRetransmissions();
    }
    m_recovery_point = m_board.Next();
    BeginUndo();
    m_frto.StopNewData();
    m_undo.SetRestoresWindow(m_ca_state != CC_CA_CWR && !ece);
    m_reports_reduction = m_reports_reduction || m_ca_state != CC_CA_CWR;
    ChangeLossState(CC_CA_RECOVERY);
}

/** The receiver echoes a mark: the window is reduced once until everything out now is acknowledged (tcp_enter_cwr). */
void
TcpSender::EnterCwr()
{
    m_recovery_point = m_board.Next();
    m_undo.End();
    m_probe.Forget();
    m_reports_reduction = true;
    ChangeLossState(CC_CA_CWR);
}

void
TcpSender::ChangeLossState(cc_ca_state state)
{
    if (state == m_ca_state)
    {
        return;
    }
    const uint32_t prior_cwnd_pkts = m_controller.State().cwnd_pkts;
    const bool was_reducing = m_ca_state == CC_CA_CWR || m_ca_state == CC_CA_RECOVERY;
    const bool is_reducing = state == CC_CA_CWR || state == CC_CA_RECOVERY;
    m_ca_state = state;
    if (state != CC_CA_OPEN && state != CC_CA_CWR)
    {
        m_probe.Disarm(); // RACK has what it needs
    }
    m_controller.OnLossState(state, m_board.InFlight());
    if (!is_reducing)
    {
        m_reduction.End();
    }
    else if (!was_reducing && m_facts.prr != prr_choice::none && m_controller.IsLossBased())
    {
        m_reduction.Begin(prior_cwnd_pkts);
    }
}

/** An episode begins; earlier retransmissions, a probe included, may still be reported as duplicates. */
void
TcpSender::BeginUndo()
{
    if (m_facts.undo)
    {
        m_undo.Begin(m_board.Una(), m_board.RetransOut() + m_probe.IsRetransmissionOut());
    }
    m_probe.Forget(); // the episode does what the probe would
}

/** The recovery is over: it is undone if it was not needed (tcp_try_undo_recovery). */
void
TcpSender::TryUndoRecovery()
{
    if (m_undo.IsProven(m_board.EchoMs()))
    {
        Undo();
    }
    else
    {
        m_board.Reordering().OnRecovered();
    }
    ChangeLossState(CC_CA_OPEN);
}

/**
 * A hole was filled by a segment that was late, not by a retransmission (tcp_try_undo_partial). True: nothing more is
 * to be held lost before the retransmissions are acknowledged.
 */
bool
TcpSender::TryUndoPartial(uint64_t prior_una)
{
    if (!m_undo.WasDelayed(m_board.EchoMs()))
    {
        return false;
    }
    m_board.NoteLateOriginal(prior_una);
    if (m_board.RetransOut() > 0)
    {
        return true;
    }
    if (!m_board.HasRetransmissions())
    {
        m_undo.ForgetRetransmissions();
    }
    m_board.UnmarkLost();
    Undo();
    ChangeLossState(StateWithoutLoss());
    return false;
}

/** Every retransmission of the episode was reported as a duplicate: none of them was needed (tcp_try_undo_dsack). */
bool
TcpSender::TryUndoDuplicates()
{
    if (!m_undo.AllWereDuplicates())
    {
        return false;
    }
    m_board.Reordering().OnUndone();
    Undo();
    return true;
}

/** The timeout was spurious (tcp_try_undo_loss). */
void
TcpSender::UndoLoss()
{
    m_frto.End();
    m_timeouts_in_row = 0;
    m_board.UnmarkLost();
    Undo();
    ChangeLossState(CC_CA_OPEN);
}

void
TcpSender::Undo()
{
    if (m_undo.RestoresWindow())
    {
        m_controller.OnUndo();
        m_reports_reduction = false;
    }
    m_undo.End();
    m_board.ExamineAgain();
    ++m_totals.undo_count;
}

} // namespace bbrgym
