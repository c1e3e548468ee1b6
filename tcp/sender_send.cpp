// SPDX-License-Identifier: GPL-2.0-only
//
// Start, and sending: new data, retransmissions, bursts and the use of the window (tcp_write_xmit).
#include "sender.hpp"

#include <algorithm>
#include <utility>

namespace bbrgym
{

void
TcpSender::Start(uint32_t mss_bytes, int64_t handshake_rtt_ns, const SocketFacts& facts, int64_t now_ns)
{
    m_facts = facts;
    m_board.SetFacts(facts);
    m_rtt.SetFacts(facts);
    m_probe.SetFacts(facts);
    m_pacing.Start(facts, mss_bytes, m_controller.MaySendSingles());
    m_mss_bytes = mss_bytes;
    if (handshake_rtt_ns >= 0)
    {
        m_last_rtt_ns = handshake_rtt_ns;
        m_rtt.AddSample(handshake_rtt_ns, 0, 0);
        m_board.NoteRtt(handshake_rtt_ns, now_ns);
    }
    m_controller.Start(StartOf(static_cast<uint32_t>(facts.initial_cwnd_segments), now_ns));
    m_validation.Start(facts, m_controller.IsLossBased(), now_ns);
    m_wants_tx_states = m_controller.WantsTxStates();
    if (m_wants_tx_states)
    {
        m_board.KeepTxStates();
    }
}

cc_start
TcpSender::StartOf(uint32_t cwnd_pkts, int64_t now_ns) const
{
    return {.now_us = Us(now_ns),
            .srtt_us = m_rtt.HasSample() ? Us(m_rtt.SmoothedNs()) : 0,
            .min_rtt_us = m_board.MinRttNs() < 0 ? CC_RTT_UNKNOWN_US : Us(m_board.MinRttNs()),
            .rng_seed = 0,
            .mss_bytes = m_mss_bytes,
            .initial_cwnd_pkts = cwnd_pkts,
            .ecn_ok = m_facts.ecn && m_facts.ecn_precise};
}

/** Linux's tcp_set_congestion_control: a socket that BBR paced stays paced, a reduction goes on by the window alone. */
void
TcpSender::SetParams(const cc_params& params, int64_t now_ns)
{
    const bool was_loss_based = m_controller.IsLossBased();
    if (!m_controller.SetParams(params) || !m_controller.HasStarted()) [[likely]]
    {
        return;
    }
    const uint32_t window_pkts = std::max(WindowPkts(), 1U);
    m_controller.Switch(StartOf(window_pkts, now_ns), m_board.Una(), m_board.Rate().Delivered());
    m_pacing.Suit(m_facts, m_controller.MaySendSingles());
    m_validation.Start(m_facts, m_controller.IsLossBased(), now_ns);
    m_undo.SetRestoresWindow(false);
    const bool is_reducing = m_ca_state == CC_CA_CWR || m_ca_state == CC_CA_RECOVERY;
    if (!m_controller.IsLossBased())
    {
        m_reduction.End();
    }
    else if (!was_loss_based)
    {
        m_pacing.PaceAll();
        if (is_reducing && m_facts.prr != prr_choice::none)
        {
            m_reduction.Begin(window_pkts);
        }
    }
}

void
TcpSender::Reset(std::size_t segments)
{
    Scoreboard board = std::move(m_board);
    *this = TcpSender();
    m_board = std::move(board);
    m_board.Reset(segments);
}

ToSend
TcpSender::Next(uint64_t new_pkts, int64_t now_ns)
{
    if (m_pacing.IsInBurst())
    {
        const uint64_t retransmit = m_pacing.NextRetransmit();
        return retransmit == BurstPacing::NONE ? ToSend{ToSend::Kind::NEW}
                                               : ToSend{ToSend::Kind::RETRANSMIT, retransmit};
    }
    m_pacing.AwaitNothing();
    m_waits_for_ack = false;
    if (m_sends_at_once)
    {
        m_sends_at_once = false;
        return NextAtOnce(new_pkts);
    }
    if (m_board.Empty() && new_pkts > 0)
    {
        CheckIdle(now_ns);
    }
    const uint32_t window_pkts = WindowPkts();
    if (m_frto.SendsNewData()) [[unlikely]]
    {
        const bool is_held_back = m_board.InFlight() >= window_pkts || m_pacing.HoldsBack(now_ns);
        m_frto.BeforeSending(is_held_back, m_board.Next() > m_recovery_point, IsPaced(), now_ns);
    }
    if (m_board.InFlight() >= window_pkts)
    {
        m_validation.OnFull(m_board.Next());
        return {};
    }
    if (m_pacing.HoldsBack(now_ns))
    {
        m_pacing.Await();
        return {};
    }
    if (m_frto.SendsNewData()) [[unlikely]]
    {
        if (new_pkts > 0)
        {
            return BeginNew(new_pkts, window_pkts, now_ns);
        }
        if (m_board.Next() > m_recovery_point)
        {
            return {}; // the next ACK decides
        }
        m_frto.End(); // there is no new data to test with
    }
    if (const auto lost = m_board.NextLost())
    {
        return BeginRetransmit(*lost, window_pkts - m_board.InFlight());
    }
    return new_pkts > 0 ? BeginNew(new_pkts, window_pkts, now_ns) : ToSend{};
}

/** Nothing is out: the window decays if that has lasted longer than a timeout (tcp_slow_start_after_idle_check). */
void
TcpSender::CheckIdle(int64_t now_ns)
{
    const int64_t idle_ns = now_ns - m_last_sent_ns;
    if (m_facts.slow_start_after_idle && idle_ns > RtoNs() && m_last_sent_ns != NEVER_NS)
    {
        m_controller.OnIdle(Us(idle_ns), Us(RtoNs()));
        m_last_sent_ns = now_ns; // once a pause
        m_validation.OnUsed(now_ns);
    }
}

/** A segment past window and pacing: the first lost one, or a new one. */
ToSend
TcpSender::NextAtOnce(uint64_t new_pkts)
{
    if (const auto lost = m_board.NextLost())
    {
        m_pacing.PassPacing();
        m_pacing.BeginRetransmit(*lost, 1);
        return {ToSend::Kind::RETRANSMIT, *lost};
    }
    if (new_pkts == 0)
    {
        return {};
    }
    m_pacing.PassPacing();
    m_pacing.BeginNew(1);
    return {ToSend::Kind::NEW};
}

/** A burst of new data, unless it is better to wait until the window allows a larger one. */
ToSend
TcpSender::BeginNew(uint64_t new_pkts, uint32_t window_pkts, int64_t now_ns)
{
    if (m_pacing.IsOfSingles())
    {
        m_pacing.BeginNew(1);
        return {ToSend::Kind::NEW};
    }
    const uint32_t burst_pkts = BurstPkts();
    const uint32_t room_pkts = window_pkts - m_board.InFlight();
    if (room_pkts < burst_pkts && WaitsForAck(new_pkts, burst_pkts, window_pkts, now_ns))
    {
        m_waits_for_ack = true;
        m_validation.OnFull(m_board.Next());
        return {};
    }
    // Two bursts in the network at least (tcp_cwnd_test).
    const uint32_t allowed_pkts =
        std::min({burst_pkts, room_pkts, std::max(window_pkts / 2, 1U), m_pacing.LeftInSkbPkts(m_board.Next())});
    m_pacing.BeginNew(static_cast<uint32_t>(std::min<uint64_t>(allowed_pkts, new_pkts)));
    return {ToSend::Kind::NEW};
}

/** Lost segments that had left together leave together again (tcp_xmit_retransmit_queue). */
ToSend
TcpSender::BeginRetransmit(uint64_t seqno, uint32_t room_pkts)
{
    m_pacing.BeginRetransmit(
        seqno, m_pacing.IsOfSingles() ? 1 : m_board.LostTogether(seqno, std::min(room_pkts, BurstPkts())));
    return {ToSend::Kind::RETRANSMIT, seqno};
}

/** Linux's tcp_tso_should_defer. */
bool
TcpSender::WaitsForAck(uint64_t new_pkts, uint32_t burst_pkts, uint32_t window_pkts, int64_t now_ns) const
{
    const uint32_t room_pkts = window_pkts - m_board.InFlight();
    const bool fills_enough = new_pkts <= room_pkts || room_pkts >= burst_pkts ||
                              3 * uint64_t{room_pkts} >= window_pkts ||
                              m_pacing.LeftInSkbPkts(m_board.Next()) <= room_pkts;
    const bool is_recent = now_ns - m_pacing.NextSendNs() <= DEFERRAL_NS;
    if (m_facts.tso_deferral == tso_deferral_choice::none || m_ca_state >= CC_CA_RECOVERY || fills_enough ||
        !is_recent || m_board.Empty())
    {
        return false;
    }
    const int64_t srtt_ns = std::max<int64_t>(SrttNs(), 0);
    const int64_t until_ack_ns = m_board.At(m_board.Una()).sent_ns + srtt_ns - now_ns;
    const int64_t soon_ns = srtt_ns / 2;
    return until_ack_ns <=
           (m_facts.tso_deferral == tso_deferral_choice::one_ms ? std::min(soon_ns, DEFERRAL_NS) : soon_ns);
}

/** The controller's own rate, or twice its window in a round trip, 1.2 times it near ssthresh (tcp_update_pacing_rate).
 */
uint64_t
TcpSender::PacingBps() const
{
    const cc_state& state = m_controller.State();
    if (state.pacing_Bps != UINT64_MAX || SrttNs() <= 0)
    {
        return state.pacing_Bps;
    }
    const uint64_t window_bytes = uint64_t{std::max(WindowPkts(), m_board.PacketsOut())} * m_mss_bytes;
    const uint64_t percent = state.cwnd_pkts < state.ssthresh_pkts / 2 ? 200 : 120;
    return window_bytes * percent * 10'000'000 / static_cast<uint64_t>(SrttNs());
}

void
TcpSender::OnRetransmitted(uint64_t seqno, uint32_t payload_bytes, int64_t now_ns)
{
    if (m_board.InFlight() == 0)
    {
        m_controller.OnRestart(Us(now_ns), m_board.Rate().IsAppLimited());
    }
    m_board.Retransmitted(seqno, now_ns);
    ++m_totals.retransmitted_pkts;
    m_undo.OnRetransmitted(now_ns);
    NoteTransmission(payload_bytes, now_ns);
    const bool is_by_timeout = std::exchange(m_timeout_sends, false); // which has armed the timer
    if (seqno == m_board.Una() && m_facts.rto_restarts && !is_by_timeout)
    {
        ArmRto(now_ns); // the timer is the head's (tcp_xmit_retransmit_queue)
    }
}

void
TcpSender::EndBurst(int64_t now_ns)
{
    const cc_state& state = m_controller.State();
    m_pacing.End(m_pacing.PacesAll() ? PacingBps() : state.pacing_Bps, state.pacing_overhead_bytes, m_totals.sent_pkts,
                 now_ns);
}

/** The limit that Linux names after tcp_write_xmit: the receive window, or the send buffer (tcp_cwnd_validate). */
void
TcpSender::ValidateCwnd(bool has_unsent, bool has_sent, bool writer_waits, int64_t now_ns)
{
    const bool window_is_full = m_waits_for_ack || m_board.InFlight() >= WindowPkts();
    MeasureCwndUse(has_unsent, window_is_full, writer_waits, now_ns);
    if (has_unsent && (window_is_full || PacingDeadlineNs() != NEVER_NS)) [[likely]]
    {
        m_chrono.Change(SendState::BUSY, now_ns);
        return;
    }
    const bool starves = !has_unsent && writer_waits;
    SendState state = SendState::BUSY;
    if (has_unsent)
    {
        state = SendState::RWND_LIMITED;
    }
    else if (m_board.Empty() && !starves)
    {
        state = SendState::IDLE;
    }
    else if (starves && (m_chrono.State() == SendState::SNDBUF_LIMITED || (has_sent && !window_is_full)))
    {
        state = SendState::SNDBUF_LIMITED;
    }
    m_chrono.Change(state, now_ns);
}

/** A window that is not used may fall to what was (tcp_cwnd_validate). */
inline void
TcpSender::MeasureCwndUse(bool has_unsent, bool is_full, bool writer_waits, int64_t now_ns)
{
    const CwndValidation::Out out{m_board.Una(), m_board.Next(), m_board.PacketsOut()};
    if (!m_validation.Validate(out, has_unsent, is_full) || !m_validation.MeasuresUse())
    {
        return;
    }
    const cc_state& state = m_controller.State();
    if (m_validation.IsUsed(state.cwnd_pkts, state.ssthresh_pkts)) [[likely]]
    {
        m_validation.OnUsed(now_ns);
    }
    else if (const auto used_pkts =
                 m_validation.OnCwndUnderused(out.packets, m_ca_state == CC_CA_OPEN && !writer_waits, RtoNs(), now_ns))
    {
        m_controller.OnCwndUnderused(*used_pkts);
    }
}

void
TcpSender::BeforeWrite(bool has_unsent)
{
    if (!has_unsent && m_board.NothingToRetransmit() && m_board.InFlight() < WindowPkts())
    {
        m_board.MarkAppLimited(); // as tcp_sendmsg judges, before the data is queued
    }
}

} // namespace bbrgym
