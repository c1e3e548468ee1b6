// SPDX-License-Identifier: GPL-2.0-only
//
// Timers: the timeout and the tail loss probe; when each is armed.
#include "sender.hpp"

#include <algorithm>

namespace bbrgym
{

bool
TcpSender::OnTimer(int64_t now_ns)
{
    if (IsProbeDue(now_ns))
    {
        m_probe.Disarm();
        if (!m_probe.IsOut())
        {
            return true;
        }
        ArmRtoOfHead(now_ns); // one probe at a time (tcp_send_loss_probe)
    }
    if (now_ns >= m_board.ReorderingDeadlineNs())
    {
        m_board.ExamineAgain();
        if (DetectLosses(now_ns) > 0 &&
            (m_ca_state < CC_CA_RECOVERY || (m_ca_state == CC_CA_LOSS && m_facts.loss_recovers)))
        {
            EnterRecovery(false);
            if (m_reduction.IsActive()) // tcp_rack_reo_timeout
            {
                m_reduction.OnAck(1, m_board.InFlight(), m_controller.State().ssthresh_pkts, false,
                                  m_facts.prr == prr_choice::una_advanced);
            }
        }
    }
    if (now_ns >= m_rto_deadline_ns)
    {
        Timeout(now_ns);
    }
    return false;
}

/** RFC 6298, 5.4 to 5.7: everything unacknowledged counts as lost, and one packet may leave at once. */
void
TcpSender::Timeout(int64_t now_ns)
{
    ++m_totals.rto_count;
    const uint32_t prior_in_flight = m_board.InFlight();
    const bool is_new_episode = m_ca_state < CC_CA_RECOVERY || m_board.Una() >= m_recovery_point;
    const bool made_progress = m_ca_state == CC_CA_LOSS && m_timeouts_in_row == 0;
    if (is_new_episode || made_progress)
    {
        BeginUndo();
        m_undo.SetRestoresWindow(m_ca_state != CC_CA_CWR);
    }
    m_reports_reduction = true;
    m_frto.Begin(m_facts.undo && (is_new_episode || m_timeouts_in_row > 0));
    m_probe.Disarm();
    if (m_ca_state <= CC_CA_DISORDER)
    {
        m_board.DoubtReordering();
    }
    m_board.MarkTimedOut(now_ns);
    TellLosses(now_ns);
    m_recovery_point = m_board.Next();
    m_ca_state = CC_CA_LOSS;
    m_reduction.End();
    m_validation.OnCwndChanged(now_ns);
    m_controller.OnRto(is_new_episode || made_progress, prior_in_flight, m_board.InFlight(), m_board.LostTotal());
    m_rtt.BackOff();
    ++m_timeouts_in_row;
    m_pacing.Restart(now_ns); // the head leaves at once, regardless of pacing
    m_timeout_sends = true;
    ArmRto(now_ns);
}

void
TcpSender::OnProbeSent(bool is_retransmission, uint32_t payload_bytes, int64_t now_ns)
{
    const bool is_app_limited = is_retransmission && m_board.At(m_board.Next() - 1).app_limited != 0;
    if (is_retransmission)
    {
        m_board.Probed(now_ns);
        ++m_totals.retransmitted_pkts;
        NoteTransmission(payload_bytes, now_ns);
    }
    ++m_totals.probe_count;
    m_probe.OnSent(m_board.Next(), is_retransmission, is_app_limited);
    ArmRto(now_ns);
}

/** When the timers of retransmission and probes begin: now, or when pacing lets a packet go (tcp_pacing_delay). */
int64_t
TcpSender::TimerStartNs(int64_t now_ns) const
{
    const int64_t held_back_ns = m_facts.pacing_delays_timers ? m_pacing.WaitNs(now_ns) : 0;
    return now_ns + held_back_ns / JIFFY_NS * JIFFY_NS;
}

/** A probe's timer is over while one is out: what is left of the timeout since the head left (tcp_rearm_rto). */
void
TcpSender::ArmRtoOfHead(int64_t now_ns)
{
    const int64_t left_ns = m_board.At(m_board.Una()).sent_ns + RtoNs() - now_ns;
    m_rto_deadline_ns = TimerStartNs(now_ns) + std::max(left_ns, JIFFY_NS);
}

/**
 * Arms the probe after two round trips without an ACK, but after `longest_ns` at the latest (RFC 8985, 7.2;
 * tcp_schedule_loss_probe). While a probe is out the RFC arms none; Linux starts the timer, which then sends nothing.
 */
void
TcpSender::ArmProbe(int64_t now_ns, int64_t longest_ns)
{
    m_probe.Disarm();
    if (!m_probe.IsOn() || m_board.Empty() || (m_ca_state != CC_CA_OPEN && m_ca_state != CC_CA_CWR))
    {
        return;
    }
    m_probe.Arm(TimerStartNs(now_ns) + std::min(TailLossProbe::WaitNs(m_rtt, m_board.PacketsOut()), longest_ns));
}

} // namespace bbrgym
