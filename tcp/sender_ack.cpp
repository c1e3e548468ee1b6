// SPDX-License-Identifier: GPL-2.0-only
//
// One ACK, in the kernel's order (tcp_ack).
#include "sender.hpp"

#include <algorithm>
#include <cstdlib>

namespace bbrgym
{

const cc_sample&
TcpSender::OnAck(uint64_t una, std::span<const SeqnoRange> blocks, int64_t now_ns, bool ece)
{
    const uint32_t prior_in_flight = m_board.InFlight();
    const uint64_t prior_una = m_board.Una();
    const bool has_sack = !blocks.empty();
    const uint32_t prior_lost = m_board.LostOut();
    const uint64_t lost_retransmits_before = m_board.LostRetransmitTotal();
    const cc_ca_state prior_state = m_ca_state;
    const SeqnoRange duplicate = ReadDuplicateReport(blocks, una);
    const bool reports_duplicate = duplicate.begin < duplicate.end;
    AckOutcome outcome = m_board.Acknowledge(una, blocks, now_ns, duplicate);
    if (m_facts.timestamps && outcome.UnaAdvanced() && outcome.oldest_rtt_ns < 0) [[unlikely]]
    {
        ReadEchoedRtt(outcome, now_ns);
    }
    UpdateRtt(outcome, now_ns);
    m_ece = ece && m_facts.ecn;
    if (m_ece) [[unlikely]]
    {
        m_board.NoteEcho(outcome.acked_pkts);
        m_undo.SetRestoresWindow(false);
    }
    ProcessTlpAck(outcome, una, now_ns);
    const uint32_t newly_lost = UpdateLossState(outcome, prior_una, reports_duplicate, now_ns);
    const auto changed_pkts = static_cast<uint32_t>(std::abs(int64_t{m_board.LostOut()} - prior_lost));
    const uint32_t lost_pkts = m_facts.losses_of_ack == losses_of_ack_choice::change ? changed_pkts : newly_lost;
    if (m_facts.partial_ack_sends && m_ca_state == CC_CA_RECOVERY)
    {
        SendForPartialAck(prior_state, outcome.UnaAdvanced());
    }
    RunController(outcome, lost_pkts, prior_in_flight, has_sack, now_ns);
    if (m_reduction.IsActive())
    {
        ReduceWindow(outcome, newly_lost, m_board.LostRetransmitTotal() > lost_retransmits_before);
    }
    if (outcome.UnaAdvanced())
    {
        m_validation.OnCwndChanged(now_ns); // tcp_cong_avoid
        m_timeouts_in_row = 0;
        if (m_facts.rto_restarts || RestartsRto(prior_state))
        {
            ArmRto(now_ns);
        }
        ArmProbe(now_ns, RtoNs());
        if (!m_board.Empty())
        {
            m_probe.OnHead(m_board.At(m_board.Una()).sent_ns + RtoNs());
        }
    }
    else if (outcome.data_sacked && m_facts.sacks_restart_rto && outcome.oldest_rtt_ns >= 0 &&
             outcome.oldest_rtt_ns > now_ns - m_board.At(m_board.Una()).sent_ns)
    {
        ArmRto(now_ns);
    }
    return m_sample;
}

/** ns-3.28: the ACK that begins a recovery, and each that advances within it, sends a segment at once. */
void
TcpSender::SendForPartialAck(cc_ca_state prior_state, bool has_advanced)
{
    const bool is_partial = prior_state == CC_CA_RECOVERY && has_advanced;
    m_sends_at_once |= is_partial || prior_state != CC_CA_RECOVERY;
    if (is_partial && !m_board.Empty() && m_board.At(m_board.Una()).lost)
    {
        m_board.MarkHeadLost();
    }
}

/** In a recovery the first ACK that advances restarts the timer, the later ones do not. */
bool
TcpSender::RestartsRto(cc_ca_state prior_state)
{
    const bool is_partial = prior_state == CC_CA_RECOVERY && m_ca_state == CC_CA_RECOVERY;
    const bool restarts = !is_partial || !m_had_partial_ack;
    m_had_partial_ack = is_partial;
    return restarts;
}

/** A first block that lies below `una` or inside the second reports duplicates (RFC 2883); it is taken off and
 * returned. */
SeqnoRange
TcpSender::ReadDuplicateReport(std::span<const SeqnoRange>& blocks, uint64_t una)
{
    if (blocks.empty())
    {
        return {};
    }
    const SeqnoRange first = blocks[0];
    const bool inside_second = blocks.size() > 1 && blocks[1].begin <= first.begin && first.end <= blocks[1].end;
    if (first.end > una && !inside_second)
    {
        return {};
    }
    blocks = blocks.subspan(1);
    ++m_totals.duplicate_reports;
    m_undo.OnDuplicateReport(first.end, static_cast<uint32_t>(first.end - first.begin));
    const bool is_probe = m_probe.OnDuplicateReport(first.end);
    if (!is_probe && m_board.ReorderingCount() > 0)
    {
        m_board.Reordering().OnDuplicateReport();
    }
    return first;
}

/** RFC 6298, fed with the oldest segment's RTT as Linux does. */
void
TcpSender::UpdateRtt(const AckOutcome& outcome, int64_t now_ns)
{
    if (outcome.rtt_ns >= 0)
    {
        m_last_rtt_ns = outcome.rtt_ns;
    }
    if (outcome.oldest_rtt_ns < 0)
    {
        return;
    }
    m_rtt.AddSample(outcome.oldest_rtt_ns, m_board.Una(), m_board.Next());
    if (outcome.UnaAdvanced() || m_facts.sacks_restart_rto)
    {
        m_rtt.EndBackoff(); // not by an ACK of what was retransmitted, which tells no RTT
    }
    m_board.NoteSmoothedRtt(m_rtt.SmoothedNs(), now_ns);
}

/** An ACK of what was retransmitted echoes the time of the transmission that arrived: an RTT too (tcp_rtt_tsopt_us). */
void
TcpSender::ReadEchoedRtt(AckOutcome& outcome, int64_t now_ns)
{
    constexpr int64_t MS_NS = 1'000'000;
    outcome.rtt_ns = std::max<int64_t>(TimestampMs(now_ns) - m_board.EchoMs(), 1) * MS_NS;
    outcome.oldest_rtt_ns = outcome.rtt_ns;
    m_board.NoteRtt(outcome.rtt_ns, now_ns);
}

/** A tail loss probe that repaired a loss counts as congestion (RFC 8985, 7.4; tcp_process_tlp_ack). */
void
TcpSender::ProcessTlpAck(const AckOutcome& outcome, uint64_t una, int64_t now_ns)
{
    if (!m_probe.OnAck(una, outcome.UnaAdvanced(), outcome.data_sacked)) [[likely]]
    {
        return;
    }
    if (m_ca_state < CC_CA_CWR)
    {
        m_reports_reduction = true;
        ChangeLossState(CC_CA_CWR);
        ChangeLossState(StateWithoutLoss());
    }
    m_controller.OnProbeRepair(Us(now_ns), m_board.Rate().Delivered(), m_probe.WasAppLimited());
}

void
TcpSender::RunController(const AckOutcome& outcome, uint32_t lost_pkts, uint32_t prior_in_flight, bool has_sack,
                         int64_t now_ns)
{
    const RateSample rate = m_board.SampleRate(now_ns);
    cc_sample& sample = m_sample;
    sample.now_us = Us(now_ns);
    sample.delivered_time_us = Us(m_board.Rate().DeliveredTimeNs());
    sample.delivered_pkts = m_board.Rate().Delivered();
    sample.prior_delivered_pkts = rate.prior_delivered_pkts;
    sample.sample_pkts = rate.sample_pkts;
    sample.interval_us = rate.interval_ns < 0 ? -1 : rate.interval_ns / 1000;
    sample.rtt_us = outcome.rtt_ns < 0 ? -1 : outcome.rtt_ns / 1000;
    sample.srtt_us = m_rtt.HasSample() ? Us(m_rtt.SmoothedNs()) : 0;
    sample.min_rtt_us = m_board.MinRttNs() < 0 ? CC_RTT_UNKNOWN_US : Us(m_board.MinRttNs());
    sample.una_pkts = m_board.Una();
    sample.next_pkts = m_board.Next();
    sample.acked_pkts = outcome.acked_pkts;
    sample.lost_pkts = lost_pkts;
    sample.total_lost_pkts = m_board.LostTotal();
    sample.prior_in_flight_pkts = prior_in_flight;
    sample.in_flight_pkts = m_board.InFlight();
    sample.departure_wait_us = static_cast<uint32_t>(m_pacing.WaitNs(now_ns) / 1000);
    sample.ca_state = static_cast<uint8_t>(m_ca_state);
    sample.is_app_limited = rate.is_app_limited;
    sample.is_ack_delayed = outcome.is_ack_delayed;
    sample.has_sack = has_sack;
    sample.is_reordering = m_board.IsReordering();
    const cc_state& state = m_controller.State();
    sample.is_cwnd_limited = m_validation.MayRise(m_board.Una(), state.cwnd_pkts, state.ssthresh_pkts);
    if (m_wants_tx_states) [[unlikely]]
    {
        FillTxState(sample, rate);
    }

    m_controller.OnAck(sample);
    if (state.mark_app_limited)
    {
        m_board.MarkAppLimited();
    }
}

/** What was in flight when the sampled segment left, and what has become of it. */
void
TcpSender::FillTxState(cc_sample& sample, const RateSample& rate) const
{
    const bool has_flight = rate.at_send.in_flight_pkts > 0;
    sample.tx_in_flight_pkts = rate.at_send.in_flight_pkts;
    sample.lost_since_pkts = has_flight ? static_cast<uint32_t>(m_board.LostTotal() - rate.at_send.lost_pkts) : 0;
    sample.delivered_ce_pkts = has_flight ? static_cast<uint32_t>(m_board.MarkedTotal() - rate.at_send.ce_pkts) : 0;
    sample.total_ce_pkts = m_board.MarkedTotal();
    sample.is_ece = m_ece;
    sample.is_acking_tlp = m_probe.IsAcked();
}

/** The rule for a packet more below ssthresh changed with Linux 6.0 (RFC 6937bis). */
void
TcpSender::ReduceWindow(const AckOutcome& outcome, uint32_t newly_lost, bool lost_retransmit)
{
    const bool makes_up = m_facts.prr == prr_choice::una_advanced;
    const bool makes_progress =
        makes_up ? outcome.UnaAdvanced() && newly_lost == 0 : outcome.retransmission_acked && !lost_retransmit;
    m_reduction.OnAck(outcome.acked_pkts, m_board.InFlight(), m_controller.State().ssthresh_pkts, makes_progress,
                      makes_up);
}

} // namespace bbrgym
