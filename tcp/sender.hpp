// SPDX-License-Identifier: GPL-2.0-only
//
// Linux's TCP sender with SACK: it updates scoreboard, RTT estimate, loss state and congestion control on an ACK,
// decides what to send and when, and handles timeouts.
//
// A host drives it: it reports ACKs and the timer, asks `Next` what to send until there is nothing, and
// reports what it sent. Between two events it waits until PacingDeadlineNs (to ask again) or TimerDeadlineNs
// (to call OnTimer), whichever applies.
//
// Controller is how the host reaches the algorithms of cc/; it has the functions of cc.h as members, without
// state and params: State, Start, OnAck, OnPacketLost, OnProbeRepair, OnLossState, OnRto, OnIdle, OnCwndUnderused,
// OnRestart, OnUndo, WantsTxStates, and IsLossBased and MaySendSingles.
//
// What has a law of its own stands apart: the RTT estimate, the tail loss probe, F-RTO, undo, rate reduction, bursts
// and their pacing, window validation.
//
// Not modelled: SACK reneging, queues of the device (TCP small queues).
#ifndef BBRGYM_TCP_SENDER_HPP
#define BBRGYM_TCP_SENDER_HPP

#include "burst_pacing.hpp"
#include "chronograph.hpp"
#include "cwnd_validation.hpp"
#include "ecn.hpp"
#include "frto.hpp"
#include "rate_reduction.hpp"
#include "rtt_estimator.hpp"
#include "scoreboard.hpp"
#include "stack.hpp"
#include "tail_loss_probe.hpp"
#include "timestamp.hpp"
#include "undo.hpp"

extern "C"
{
#include "cc.h"
}

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace bbrgym
{

/** Totals since the connection was established. */
struct SenderTotals
{
    uint64_t sent_pkts = 0; ///< data segments, retransmissions included
    uint64_t retransmitted_pkts = 0;
    uint64_t rto_count = 0;
    uint64_t probe_count = 0;       ///< tail loss probes
    uint64_t undo_count = 0;        ///< recoveries undone as spurious
    uint64_t duplicate_reports = 0; ///< D-SACKs
};

/** The next packet to send. */
struct ToSend
{
    enum class Kind
    {
        NOTHING,
        NEW,
        RETRANSMIT
    };

    Kind kind = Kind::NOTHING;
    uint64_t seqno = 0; ///< of the segment to RETRANSMIT
};

template <class Controller> class TcpSender
{
  public:
    static constexpr int64_t JIFFY_NS = 1'000'000;    ///< Linux, HZ=1000
    static constexpr int64_t DEFERRAL_NS = 1'000'000; ///< tcp_tso_should_defer

    /** Starts when the connection is established. `handshake_rtt_ns`: -1 if the SYN was sent more than once. */
    void Start(uint32_t mss_bytes, int64_t handshake_rtt_ns, const SocketFacts& facts, int64_t now_ns);

    /** Processes an ACK of everything below `una` and of the blocks, the first of which may be a D-SACK. Returns its
     * sample. */
    const cc_sample& OnAck(uint64_t una, std::span<const SeqnoRange> blocks, int64_t now_ns, bool ece = false);
    /** Call before OnAck if the stack has timestamps: the one that the ACK echoes. */
    void OnTimestampEcho(int64_t echo_ms) { m_board.OnTimestampEcho(echo_ms); }
    /** Call at TimerDeadlineNs. True: a probe is due, to be reported with OnProbeSent. */
    bool OnTimer(int64_t now_ns);

    /** Returns what may be sent now; `new_pkts`: new segments that the host has and the receiver has room for. */
    ToSend Next(uint64_t new_pkts, int64_t now_ns);
    /** Segments of a burst: what a window with room, and data, fills (tcp_tso_segs). */
    uint32_t BurstPkts() const;
    /** The ECN bits of the next new segment; call once for each. */
    EcnBits EcnBitsToSend()
    {
        return {.ect = m_facts.ecn, .cwr = m_facts.ecn && std::exchange(m_reports_reduction, false)};
    }
    [[gnu::always_inline]] void OnNewSent(uint32_t payload_bytes, bool is_runt, int64_t now_ns);
    void OnRetransmitted(uint64_t seqno, uint32_t payload_bytes, int64_t now_ns);
    /** A tail loss probe was sent: new data, already reported, or the last segment retransmitted. */
    void OnProbeSent(bool is_retransmission, uint32_t payload_bytes, int64_t now_ns);
    /**
     * Call when Next has nothing to send. `has_unsent`: data waits to be sent; `has_sent`: something was sent just now;
     * `writer_waits`: the application waits for room in the send buffer.
     */
    void ValidateCwnd(bool has_unsent, bool has_sent, bool writer_waits, int64_t now_ns);
    /** The application is about to write; `has_unsent`: at least a segment still waits to be sent. */
    void BeforeWrite(bool has_unsent);

    /** The time at which pacing lets Next send again; NEVER_NS: pacing holds nothing back. */
    int64_t PacingDeadlineNs() const { return m_pacing.DeadlineNs(); }
    int64_t TimerDeadlineNs() const
    {
        return std::min({m_rto_deadline_ns, m_probe.DeadlineNs(), m_board.ReorderingDeadlineNs()});
    }

    /** Whether it is the probe's timer that OnTimer now finds over. */
    bool IsProbeDue(int64_t now_ns) const { return now_ns >= m_probe.DeadlineNs(); }
    int64_t RtoDeadlineNs() const { return m_rto_deadline_ns; } ///< NEVER_NS: nothing is out

    /** The window that holds the sender: the controller's, or in a recovery that of proportional rate reduction. */
    uint32_t WindowPkts() const
    {
        return m_reduction.IsActive() ? m_reduction.WindowPkts() : m_controller.State().cwnd_pkts;
    }
    const Chronograph& Chrono() const { return m_chrono; }
    const Scoreboard& Board() const { return m_board; }
    const SenderTotals& Totals() const { return m_totals; }
    cc_ca_state LossState() const { return m_ca_state; }
    bool IsPaced() const { return m_pacing.IsPaced(); }
    int64_t SrttNs() const { return m_rtt.SmoothedNs(); } ///< -1: no sample yet
    int64_t LastRttNs() const { return m_last_rtt_ns; }   ///< -1: no sample yet
    int64_t RttVarNs() const { return m_rtt.DeviationNs(); }
    int64_t RtoNs() const { return m_rtt.TimeoutNs(); }
    uint32_t Backoff() const { return m_rtt.Backoff(); } ///< doublings of the timer
    /** Whether the next segment leaves in one burst with the last one. */
    bool IsInBurst() const { return m_pacing.IsInBurst(); }
    Controller& GetController() { return m_controller; }
    const Controller& GetController() const { return m_controller; }

    /** Has DrainLosses tell of the segments marked lost; from the connection's start on. */
    void LogLosses() { m_board.LogLosses(); }
    /** The sequence numbers of the segments marked lost since the last call. */
    std::vector<uint64_t> DrainLosses() { return m_board.DrainLosses(); }

    /** Clears the connection but keeps the memory, and reserves room for `segments` in flight. */
    void Reset(std::size_t segments);

  private:
    static uint64_t Us(int64_t ns) { return static_cast<uint64_t>(ns / 1000); }

    // One ACK, in the kernel's order (tcp_ack).
    SeqnoRange ReadDuplicateReport(std::span<const SeqnoRange>& blocks, uint64_t una);
    void UpdateRtt(const AckOutcome& outcome, int64_t now_ns);
    void ReadEchoedRtt(AckOutcome& outcome, int64_t now_ns);
    void SendForPartialAck(cc_ca_state prior_state, bool has_advanced);
    bool RestartsRto(cc_ca_state prior_state);
    void ProcessTlpAck(const AckOutcome& outcome, uint64_t una, int64_t now_ns);
    uint32_t UpdateLossState(const AckOutcome& outcome, uint64_t prior_una, bool reports_duplicate, int64_t now_ns);
    void LeaveWhatIsOver();
    uint32_t ProcessRecovery(const AckOutcome& outcome, uint64_t prior_una, int64_t now_ns);
    void ProcessLoss(const AckOutcome& outcome, bool reports_duplicate, int64_t now_ns);
    uint32_t IdentifyLosses(int64_t now_ns);
    uint32_t DetectLosses(int64_t now_ns);
    uint32_t CountLosses(int64_t now_ns);
    void TellLosses(int64_t now_ns);
    void TryToOpen();
    void RunController(const AckOutcome& outcome, uint32_t lost_pkts, uint32_t prior_in_flight, bool has_sack,
                       int64_t now_ns);
    void FillTxState(cc_sample& sample, const RateSample& rate) const;

    void ReduceWindow(const AckOutcome& outcome, uint32_t newly_lost, bool lost_retransmit);

    void EnterRecovery(bool ece);
    void EnterCwr();
    cc_ca_state StateWithoutLoss() const;
    void ChangeLossState(cc_ca_state state);
    void BeginUndo();
    void TryUndoRecovery();
    bool TryUndoPartial(uint64_t prior_una);
    bool TryUndoDuplicates();
    void UndoLoss();
    void Undo();

    void CheckIdle(int64_t now_ns);
    ToSend NextAtOnce(uint64_t new_pkts);
    ToSend BeginNew(uint64_t new_pkts, uint32_t window_pkts, int64_t now_ns);
    ToSend BeginRetransmit(uint64_t seqno, uint32_t room_pkts);
    bool WaitsForAck(uint64_t new_pkts, uint32_t burst_pkts, uint32_t window_pkts, int64_t now_ns) const;
    uint64_t PacingBps() const;
    [[gnu::always_inline]] void NoteTransmission(uint32_t payload_bytes, int64_t now_ns);
    void EndBurst(int64_t now_ns);
    void MeasureCwndUse(bool has_unsent, bool is_full, bool writer_waits, int64_t now_ns);
    void Timeout(int64_t now_ns);
    void ArmRto(int64_t now_ns);
    int64_t TimerStartNs(int64_t now_ns) const;
    void ArmProbe(int64_t now_ns, int64_t longest_ns);
    void ArmRtoOfHead(int64_t now_ns);

    Controller m_controller;
    Scoreboard m_board;
    SenderTotals m_totals;
    SocketFacts m_facts;
    cc_sample m_sample{};
    cc_ca_state m_ca_state = CC_CA_OPEN;
    uint32_t m_mss_bytes = 1;
    uint64_t m_recovery_point = 0; ///< recovery ends when everything below it is acknowledged

    RttEstimator m_rtt;
    BurstPacing m_pacing;
    CwndValidation m_validation;
    TailLossProbe m_probe;
    Frto m_frto;
    UndoState m_undo;
    RateReduction m_reduction;
    Chronograph m_chrono;

    int64_t m_last_rtt_ns = -1;
    int64_t m_last_sent_ns = NEVER_NS; ///< the latest segment, new or retransmitted; NEVER_NS: none yet
    int64_t m_rto_deadline_ns = NEVER_NS;
    uint32_t m_timeouts_in_row = 0;   ///< since an ACK advanced (icsk_retransmits)
    bool m_waits_for_ack = false;     ///< until the window allows a larger burst
    bool m_ece = false;               ///< the ACK being processed, of a mark
    bool m_wants_tx_states = false;   ///< the controller does
    bool m_sends_at_once = false;     ///< a segment leaves past window and pacing (partial_ack_sends)
    bool m_had_partial_ack = false;   ///< since this recovery began (rto_restarts)
    bool m_timeout_sends = false;     ///< the next segment retransmitted is the timeout's
    bool m_reports_reduction = false; ///< the next new segment has CWR
};

// ---- the connection -------------------------------------------------------------------------------------

template <class Controller>
void
TcpSender<Controller>::Start(uint32_t mss_bytes, int64_t handshake_rtt_ns, const SocketFacts& facts, int64_t now_ns)
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
    cc_start start{};
    start.now_us = Us(now_ns);
    start.srtt_us = m_rtt.HasSample() ? Us(m_rtt.SmoothedNs()) : 0;
    start.min_rtt_us = m_board.MinRttNs() < 0 ? CC_RTT_UNKNOWN_US : Us(m_board.MinRttNs());
    start.mss_bytes = mss_bytes;
    start.initial_cwnd_pkts = static_cast<uint32_t>(facts.initial_cwnd_segments);
    start.ecn_ok = facts.ecn && facts.ecn_precise;
    m_controller.Start(start);
    m_validation.Start(facts, m_controller.IsLossBased(), now_ns);
    m_wants_tx_states = m_controller.WantsTxStates();
    if (m_wants_tx_states)
    {
        m_board.KeepTxStates();
    }
}

template <class Controller>
void
TcpSender<Controller>::Reset(std::size_t segments)
{
    Scoreboard board = std::move(m_board);
    *this = TcpSender();
    m_board = std::move(board);
    m_board.Reset(segments);
}

// ---- one ACK --------------------------------------------------------------------------------------------

template <class Controller>
const cc_sample&
TcpSender<Controller>::OnAck(uint64_t una, std::span<const SeqnoRange> blocks, int64_t now_ns, bool ece)
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
template <class Controller>
void
TcpSender<Controller>::SendForPartialAck(cc_ca_state prior_state, bool has_advanced)
{
    if (prior_state != CC_CA_RECOVERY)
    {
        m_sends_at_once = true;
    }
    else if (has_advanced)
    {
        m_sends_at_once = true;
        if (!m_board.Empty() && m_board.At(m_board.Una()).lost)
        {
            m_board.MarkHeadLost();
        }
    }
}

/** In a recovery the first ACK that advances restarts the timer, the later ones do not. */
template <class Controller>
bool
TcpSender<Controller>::RestartsRto(cc_ca_state prior_state)
{
    const bool is_partial = prior_state == CC_CA_RECOVERY && m_ca_state == CC_CA_RECOVERY;
    const bool restarts = !is_partial || !m_had_partial_ack;
    m_had_partial_ack = is_partial;
    return restarts;
}

/** A first block that lies below `una` or inside the second reports duplicates (RFC 2883); it is taken off and
 * returned. */
template <class Controller>
SeqnoRange
TcpSender<Controller>::ReadDuplicateReport(std::span<const SeqnoRange>& blocks, uint64_t una)
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
template <class Controller>
void
TcpSender<Controller>::UpdateRtt(const AckOutcome& outcome, int64_t now_ns)
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
template <class Controller>
void
TcpSender<Controller>::ReadEchoedRtt(AckOutcome& outcome, int64_t now_ns)
{
    constexpr int64_t MS_NS = 1'000'000;
    outcome.rtt_ns = std::max<int64_t>(TimestampMs(now_ns) - m_board.EchoMs(), 1) * MS_NS;
    outcome.oldest_rtt_ns = outcome.rtt_ns;
    m_board.NoteRtt(outcome.rtt_ns, now_ns);
}

/** A tail loss probe that repaired a loss counts as congestion (RFC 8985, 7.4; tcp_process_tlp_ack). */
template <class Controller>
void
TcpSender<Controller>::ProcessTlpAck(const AckOutcome& outcome, uint64_t una, int64_t now_ns)
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
    m_controller.OnProbeRepair(Us(now_ns), m_board.Delivered(), m_probe.WasAppLimited());
}

/** In the Loss state: undo, and F-RTO with SACK (RFC 5682, 3.1; tcp_process_loss). */
template <class Controller>
void
TcpSender<Controller>::ProcessLoss(const AckOutcome& outcome, bool reports_duplicate, int64_t now_ns)
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

template <class Controller>
uint32_t
TcpSender<Controller>::DetectLosses(int64_t now_ns)
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

/** As RFC 6675, which Linux does until 4.17 beside RACK (tcp_update_scoreboard), but not in Loss. */
template <class Controller>
uint32_t
TcpSender<Controller>::CountLosses(int64_t now_ns)
{
    if (m_facts.reordering_window == reordering_window_choice::until_three_sacked || m_ca_state == CC_CA_LOSS)
    {
        return 0;
    }
    const uint32_t lost_pkts = m_board.DetectLossesByCount();
    if (lost_pkts > 0)
    {
        TellLosses(now_ns);
    }
    return lost_pkts;
}

/** Tells the controller of each segment marked lost, where it asks for that. */
template <class Controller>
void
TcpSender<Controller>::TellLosses(int64_t now_ns)
{
    if (!m_wants_tx_states)
    {
        return;
    }
    for (const LostSegment& lost : m_board.NewlyLost())
    {
        m_controller.OnPacketLost({.now_us = Us(now_ns),
                                   .delivered_pkts = m_board.Delivered(),
                                   .total_lost_pkts = lost.total_pkts,
                                   .lost_at_send_pkts = lost.at_send.lost_pkts,
                                   .tx_in_flight_pkts = lost.at_send.in_flight_pkts,
                                   .size_pkts = 1,
                                   .is_app_limited = lost.is_app_limited});
    }
    m_board.ClearNewlyLost();
}

/** Linux's tcp_fastretrans_alert. Returns the segments that were found lost. */
template <class Controller>
uint32_t
TcpSender<Controller>::UpdateLossState(const AckOutcome& outcome, uint64_t prior_una, bool reports_duplicate,
                                       int64_t now_ns)
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
template <class Controller>
void
TcpSender<Controller>::LeaveWhatIsOver()
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

template <class Controller>
uint32_t
TcpSender<Controller>::ProcessRecovery(const AckOutcome& outcome, uint64_t prior_una, int64_t now_ns)
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

template <class Controller>
uint32_t
TcpSender<Controller>::IdentifyLosses(int64_t now_ns)
{
    const uint32_t lost_pkts = DetectLosses(now_ns);
    return lost_pkts + CountLosses(now_ns);
}

/** Linux's tcp_try_to_open. */
template <class Controller>
void
TcpSender<Controller>::TryToOpen()
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

template <class Controller>
void
TcpSender<Controller>::RunController(const AckOutcome& outcome, uint32_t lost_pkts, uint32_t prior_in_flight,
                                     bool has_sack, int64_t now_ns)
{
    const RateSample rate = m_board.SampleRate(now_ns);
    cc_sample& sample = m_sample;
    sample.now_us = Us(now_ns);
    sample.delivered_time_us = Us(m_board.DeliveredTimeNs());
    sample.delivered_pkts = m_board.Delivered();
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
template <class Controller>
void
TcpSender<Controller>::FillTxState(cc_sample& sample, const RateSample& rate) const
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
template <class Controller>
void
TcpSender<Controller>::ReduceWindow(const AckOutcome& outcome, uint32_t newly_lost, bool lost_retransmit)
{
    const bool makes_up = m_facts.prr == prr_choice::una_advanced;
    const bool makes_progress =
        makes_up ? outcome.UnaAdvanced() && newly_lost == 0 : outcome.retransmission_acked && !lost_retransmit;
    m_reduction.OnAck(outcome.acked_pkts, m_board.InFlight(), m_controller.State().ssthresh_pkts, makes_progress,
                      makes_up);
}

// ---- loss states ----------------------------------------------------------------------------------------

template <class Controller>
void
TcpSender<Controller>::EnterRecovery(bool ece)
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
template <class Controller>
void
TcpSender<Controller>::EnterCwr()
{
    m_recovery_point = m_board.Next();
    m_undo.End();
    m_probe.Forget();
    m_reports_reduction = true;
    ChangeLossState(CC_CA_CWR);
}

/** Linux's tcp_try_keep_open. */
template <class Controller>
cc_ca_state
TcpSender<Controller>::StateWithoutLoss() const
{
    return m_board.SackedOut() > 0 || m_board.LostOut() > 0 || m_board.HasRetransmissions() ? CC_CA_DISORDER
                                                                                            : CC_CA_OPEN;
}

template <class Controller>
void
TcpSender<Controller>::ChangeLossState(cc_ca_state state)
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
template <class Controller>
void
TcpSender<Controller>::BeginUndo()
{
    if (m_facts.undo)
    {
        m_undo.Begin(m_board.Una(), m_board.RetransOut() + m_probe.IsRetransmissionOut());
    }
    m_probe.Forget(); // the episode does what the probe would
}

/** The recovery is over: it is undone if it was not needed (tcp_try_undo_recovery). */
template <class Controller>
void
TcpSender<Controller>::TryUndoRecovery()
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
template <class Controller>
bool
TcpSender<Controller>::TryUndoPartial(uint64_t prior_una)
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
template <class Controller>
bool
TcpSender<Controller>::TryUndoDuplicates()
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
template <class Controller>
void
TcpSender<Controller>::UndoLoss()
{
    m_frto.End();
    m_timeouts_in_row = 0;
    m_board.UnmarkLost();
    Undo();
    ChangeLossState(CC_CA_OPEN);
}

template <class Controller>
void
TcpSender<Controller>::Undo()
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

// ---- sending --------------------------------------------------------------------------------------------

template <class Controller>
ToSend
TcpSender<Controller>::Next(uint64_t new_pkts, int64_t now_ns)
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
template <class Controller>
void
TcpSender<Controller>::CheckIdle(int64_t now_ns)
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
template <class Controller>
ToSend
TcpSender<Controller>::NextAtOnce(uint64_t new_pkts)
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
template <class Controller>
ToSend
TcpSender<Controller>::BeginNew(uint64_t new_pkts, uint32_t window_pkts, int64_t now_ns)
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
template <class Controller>
ToSend
TcpSender<Controller>::BeginRetransmit(uint64_t seqno, uint32_t room_pkts)
{
    m_pacing.BeginRetransmit(
        seqno, m_pacing.IsOfSingles() ? 1 : m_board.LostTogether(seqno, std::min(room_pkts, BurstPkts())));
    return {ToSend::Kind::RETRANSMIT, seqno};
}

/** Linux's tcp_tso_should_defer. */
template <class Controller>
bool
TcpSender<Controller>::WaitsForAck(uint64_t new_pkts, uint32_t burst_pkts, uint32_t window_pkts, int64_t now_ns) const
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

template <class Controller>
uint32_t
TcpSender<Controller>::BurstPkts() const
{
    return m_pacing.SizePkts(PacingBps(), m_board.MinRttNs());
}

/** The controller's own rate, or twice its window in a round trip, 1.2 times it near ssthresh (tcp_update_pacing_rate).
 */
template <class Controller>
uint64_t
TcpSender<Controller>::PacingBps() const
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

template <class Controller>
inline void
TcpSender<Controller>::OnNewSent(uint32_t payload_bytes, bool is_runt, int64_t now_ns)
{
    if (m_board.InFlight() == 0)
    {
        m_controller.OnRestart(Us(now_ns), m_board.IsAppLimited());
    }
    m_board.Sent(is_runt, m_pacing.HasBegun(), now_ns);
    NoteTransmission(payload_bytes, now_ns);
    if (m_board.PacketsOut() == 1)
    {
        m_probe.OnHead(now_ns + RtoNs());
    }
    if (!IsInBurst())
    {
        ArmProbe(now_ns, m_probe.LatestDeadlineNs(m_rto_deadline_ns, now_ns) - now_ns);
    }
}

template <class Controller>
void
TcpSender<Controller>::OnRetransmitted(uint64_t seqno, uint32_t payload_bytes, int64_t now_ns)
{
    if (m_board.InFlight() == 0)
    {
        m_controller.OnRestart(Us(now_ns), m_board.IsAppLimited());
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

/** A segment left: ends its burst if it is the last of it, and starts the timer if none runs. */
template <class Controller>
inline void
TcpSender<Controller>::NoteTransmission(uint32_t payload_bytes, int64_t now_ns)
{
    ++m_totals.sent_pkts;
    m_last_sent_ns = now_ns;
    m_reduction.NoteSent();
    if (m_pacing.OnSent(payload_bytes))
    {
        EndBurst(now_ns);
    }
    if (m_rto_deadline_ns == NEVER_NS)
    {
        ArmRto(now_ns);
    }
}

template <class Controller>
void
TcpSender<Controller>::EndBurst(int64_t now_ns)
{
    const cc_state& state = m_controller.State();
    m_pacing.End(m_pacing.IsByFq() ? PacingBps() : state.pacing_Bps, state.pacing_overhead_bytes, m_totals.sent_pkts,
                 now_ns);
}

/** The limit that Linux names after tcp_write_xmit: the receive window, or the send buffer (tcp_cwnd_validate). */
template <class Controller>
void
TcpSender<Controller>::ValidateCwnd(bool has_unsent, bool has_sent, bool writer_waits, int64_t now_ns)
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
template <class Controller>
inline void
TcpSender<Controller>::MeasureCwndUse(bool has_unsent, bool is_full, bool writer_waits, int64_t now_ns)
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

template <class Controller>
void
TcpSender<Controller>::BeforeWrite(bool has_unsent)
{
    if (!has_unsent && m_board.NothingToRetransmit() && m_board.InFlight() < WindowPkts())
    {
        m_board.MarkAppLimited(); // as tcp_sendmsg judges, before the data is queued
    }
}

// ---- timers ---------------------------------------------------------------------------------------------

template <class Controller>
bool
TcpSender<Controller>::OnTimer(int64_t now_ns)
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
template <class Controller>
void
TcpSender<Controller>::Timeout(int64_t now_ns)
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

template <class Controller>
void
TcpSender<Controller>::OnProbeSent(bool is_retransmission, uint32_t payload_bytes, int64_t now_ns)
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

template <class Controller>
void
TcpSender<Controller>::ArmRto(int64_t now_ns)
{
    m_rto_deadline_ns = m_board.Empty() ? NEVER_NS : TimerStartNs(now_ns) + RtoNs();
}

/** When the timers of retransmission and probes begin: now, or when pacing lets a packet go (tcp_pacing_delay). */
template <class Controller>
int64_t
TcpSender<Controller>::TimerStartNs(int64_t now_ns) const
{
    const int64_t held_back_ns = m_facts.pacing_delays_timers ? m_pacing.WaitNs(now_ns) : 0;
    return now_ns + held_back_ns / JIFFY_NS * JIFFY_NS;
}

/** A probe's timer is over while one is out: what is left of the timeout since the head left (tcp_rearm_rto). */
template <class Controller>
void
TcpSender<Controller>::ArmRtoOfHead(int64_t now_ns)
{
    const int64_t left_ns = m_board.At(m_board.Una()).sent_ns + RtoNs() - now_ns;
    m_rto_deadline_ns = TimerStartNs(now_ns) + std::max(left_ns, JIFFY_NS);
}

/**
 * Arms the probe after two round trips without an ACK, but after `longest_ns` at the latest (RFC 8985, 7.2;
 * tcp_schedule_loss_probe). While a probe is out the RFC arms none; Linux starts the timer, which then sends nothing.
 */
template <class Controller>
void
TcpSender<Controller>::ArmProbe(int64_t now_ns, int64_t longest_ns)
{
    m_probe.Disarm();
    if (!m_probe.IsOn() || m_board.Empty() || (m_ca_state != CC_CA_OPEN && m_ca_state != CC_CA_CWR))
    {
        return;
    }
    m_probe.Arm(TimerStartNs(now_ns) + std::min(TailLossProbe::WaitNs(m_rtt, m_board.PacketsOut()), longest_ns));
}

} // namespace bbrgym

#endif
