// SPDX-License-Identifier: GPL-2.0-only
//
// Linux's TCP sender with SACK: it updates scoreboard, RTT estimate, loss state and congestion control on an ACK,
// decides what to send and when, and handles timeouts.
//
// A host drives it: it reports ACKs and the timer, asks `Next` what to send until there is nothing, and
// reports what it sent. Between two events it waits until PacingDeadlineNs (to ask again) or TimerDeadlineNs
// (to call OnTimer), whichever applies.
//
// What has a law of its own stands apart: the RTT estimate, the tail loss probe, F-RTO, undo, rate reduction, bursts
// and their pacing, window validation.
//
// Not modelled: SACK reneging, queues of the device (TCP small queues).
#ifndef BBRGYM_TCP_SENDER_HPP
#define BBRGYM_TCP_SENDER_HPP

#include "burst_pacing.hpp"
#include "cc_controller.hpp"
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

#include <algorithm>
#include <cstdint>
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

class TcpSender
{
  public:
    static constexpr int64_t JIFFY_NS = 1'000'000;    ///< Linux, HZ=1000
    static constexpr int64_t DEFERRAL_NS = 1'000'000; ///< tcp_tso_should_defer

    /** Starts when the connection is established. `handshake_rtt_ns`: -1 if the SYN was sent more than once. */
    void Start(uint32_t mss_bytes, int64_t handshake_rtt_ns, const SocketFacts& facts, int64_t now_ns);

    /** Takes other parameters of the controller. Another algorithm goes on with the window and the loss state. */
    void SetParams(const cc_params& params, int64_t now_ns);

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
    uint32_t BurstPkts() const { return m_pacing.SizePkts(PacingBps(), m_board.MinRttNs()); }
    /** The ECN bits of the next new segment; call once for each. */
    EcnBits EcnBitsToSend()
    {
        return {.ect = m_facts.ecn, .cwr = m_facts.ecn && std::exchange(m_reports_reduction, false)};
    }
    /** New segments left, several only if they are full, and all that is left of a burst. */
    [[gnu::always_inline]] void OnNewSent(uint32_t payload_bytes, bool is_runt, int64_t now_ns, uint32_t pkts = 1);
    /** Segments left of the burst that leaves now. */
    uint32_t LeftInBurstPkts() const { return m_pacing.LeftPkts(); }
    /** Whether nothing differs between new segments of a burst. */
    bool SendsAlike() const { return !m_facts.ecn; }
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
    /** Number of the sk_buff in which the next segment leaves. */
    uint32_t SkbNumber() const { return m_pacing.Number(); }
    CcController& GetController() { return m_controller; }
    const CcController& GetController() const { return m_controller; }

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
    void TellLosses(int64_t now_ns);
    void TryToOpen();
    void RunController(const AckOutcome& outcome, uint32_t lost_pkts, uint32_t prior_in_flight, bool has_sack,
                       int64_t now_ns);
    void FillTxState(cc_sample& sample, const RateSample& rate) const;

    void ReduceWindow(const AckOutcome& outcome, uint32_t newly_lost, bool lost_retransmit);

    void EnterRecovery(bool ece);
    void EnterCwr();
    cc_ca_state StateWithoutLoss() const // tcp_try_keep_open
    {
        return m_board.SackedOut() || m_board.LostOut() || m_board.HasRetransmissions() ? CC_CA_DISORDER : CC_CA_OPEN;
    }
    void ChangeLossState(cc_ca_state state);
    void BeginUndo();
    void TryUndoRecovery();
    bool TryUndoPartial(uint64_t prior_una);
    bool TryUndoDuplicates();
    void UndoLoss();
    void Undo();

    cc_start StartOf(uint32_t cwnd_pkts, int64_t now_ns) const;
    void CheckIdle(int64_t now_ns);
    ToSend NextAtOnce(uint64_t new_pkts);
    ToSend BeginNew(uint64_t new_pkts, uint32_t window_pkts, int64_t now_ns);
    ToSend BeginRetransmit(uint64_t seqno, uint32_t room_pkts);
    bool WaitsForAck(uint64_t new_pkts, uint32_t burst_pkts, uint32_t window_pkts, int64_t now_ns) const;
    uint64_t PacingBps() const;
    [[gnu::always_inline]] void NoteTransmission(uint32_t payload_bytes, int64_t now_ns, uint32_t pkts = 1);
    void EndBurst(int64_t now_ns);
    void MeasureCwndUse(bool has_unsent, bool is_full, bool writer_waits, int64_t now_ns);
    void Timeout(int64_t now_ns);
    void ArmRto(int64_t now_ns) { m_rto_deadline_ns = m_board.Empty() ? NEVER_NS : TimerStartNs(now_ns) + RtoNs(); }
    int64_t TimerStartNs(int64_t now_ns) const;
    void ArmProbe(int64_t now_ns, int64_t longest_ns);
    void ArmRtoOfHead(int64_t now_ns);

    CcController m_controller;
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

// ---- of every packet, which stand in line ----------------------------------------------------------------

inline void
TcpSender::OnNewSent(uint32_t payload_bytes, bool is_runt, int64_t now_ns, uint32_t pkts)
{
    if (m_board.InFlight() == 0)
    {
        m_controller.OnRestart(Us(now_ns), m_board.Rate().IsAppLimited());
    }
    m_board.Sent(is_runt, m_pacing.HasBegun(), now_ns, pkts);
    NoteTransmission(payload_bytes, now_ns, pkts);
    if (m_board.PacketsOut() == pkts)
    {
        m_probe.OnHead(now_ns + RtoNs());
    }
    if (!IsInBurst())
    {
        ArmProbe(now_ns, m_probe.LatestDeadlineNs(m_rto_deadline_ns, now_ns) - now_ns);
    }
}

/** Segments left: ends their burst if the last of it is among them, and starts the timer if none runs. */
inline void
TcpSender::NoteTransmission(uint32_t payload_bytes, int64_t now_ns, uint32_t pkts)
{
    const auto start_rto = [&] {
        if (m_rto_deadline_ns == NEVER_NS)
        {
            ArmRto(now_ns);
        }
    };
    m_totals.sent_pkts += pkts;
    m_last_sent_ns = now_ns;
    m_reduction.NoteSent(pkts);
    if (pkts > 1)
    {
        start_rto(); // the first one does, before pacing holds anything back
    }
    if (m_pacing.OnSent(payload_bytes, pkts))
    {
        EndBurst(now_ns);
    }
    start_rto();
}

} // namespace bbrgym

#endif
