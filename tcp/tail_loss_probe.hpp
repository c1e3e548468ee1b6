// SPDX-License-Identifier: GPL-2.0-only
//
// The tail loss probe (RFC 8985, section 7; Linux tcp_schedule_loss_probe, tcp_send_loss_probe, tcp_process_tlp_ack).
//
// Two round trips without an ACK, and a segment leaves to draw one: a new one, or the last one retransmitted. The ACK
// of a retransmitted one tells what happened:
//
//   a D-SACK, or an ACK up to it that says nothing new   its original had arrived: nothing was lost
//   an ACK beyond it without a D-SACK                    it repaired a loss, which counts as congestion
#ifndef BBRGYM_TCP_TAIL_LOSS_PROBE_HPP
#define BBRGYM_TCP_TAIL_LOSS_PROBE_HPP

#include "rtt_estimator.hpp"
#include "scoreboard.hpp"
#include "stack.hpp"

#include <cstdint>
#include <limits>

namespace bbrgym
{

class TailLossProbe
{
  public:
    static constexpr int64_t LONE_PACKET_NS = 200'000'000; ///< Linux: TCP_RTO_MIN, for the receiver's delayed-ACK timer

    void SetFacts(const SocketFacts& facts)
    {
        m_is_on = facts.tail_loss_probe;
        m_is_limited_by_head = facts.head_limits_probe;
    }

    bool IsOn() const { return m_is_on; }
    int64_t DeadlineNs() const { return m_deadline_ns; } ///< of the timer; NEVER_NS: none runs
    void Arm(int64_t deadline_ns) { m_deadline_ns = deadline_ns; }
    void Disarm() { m_deadline_ns = NEVER_NS; }

    /** How long the timer waits for an ACK of `packets_out`. */
    static int64_t WaitNs(const RttEstimator& rtt, uint32_t packets_out)
    {
        const int64_t slack_ns = packets_out == 1 ? LONE_PACKET_NS : TIMER_SLACK_NS;
        return rtt.HasSample() ? 2 * rtt.SmoothedNs() + slack_ns : RttEstimator::RTO_INITIAL_NS;
    }

    /** The oldest segment out times out then, as the latest ACK that advanced knew it. */
    void OnHead(int64_t timeout_ns) { m_head_timeout_ns = timeout_ns; }
    /** The latest deadline for a new segment's probe. */
    int64_t LatestDeadlineNs(int64_t rto_deadline_ns, int64_t now_ns) const
    {
        return m_is_limited_by_head && m_head_timeout_ns > now_ns ? m_head_timeout_ns : rto_deadline_ns;
    }

    /** A probe leaves; `next`: the next new segment after it; `is_app_limited`: its segment was, when it first left. */
    void OnSent(uint64_t next, bool is_retransmission, bool is_app_limited)
    {
        m_high_segment = next;
        m_is_retransmission = is_retransmission;
        m_is_app_limited = is_app_limited;
        m_deadline_ns = NEVER_NS;
    }
    bool IsOut() const { return m_high_segment != NONE; }
    void Forget() { m_high_segment = NONE; }
    bool IsRetransmissionOut() const { return IsOut() && m_is_retransmission; }
    bool WasAppLimited() const { return m_is_app_limited; } ///< of a retransmission

    /** The segments before `end` arrived twice. True: it is the probe's report. */
    bool OnDuplicateReport(uint64_t end)
    {
        const bool is_own = IsOut() && end == m_high_segment;
        if (is_own && m_is_retransmission)
        {
            Forget();
        }
        return is_own;
    }

    /** An ACK arrives. True: the probe repaired a loss. */
    bool OnAck(uint64_t una, bool una_advanced, bool data_sacked)
    {
        m_is_acked = false;
        if (!IsOut() || una < m_high_segment)
        {
            return false;
        }
        const bool is_pure_duplicate = !una_advanced && !data_sacked;
        if (!m_is_retransmission || is_pure_duplicate)
        {
            Forget();
            return false;
        }
        m_is_acked = una == m_high_segment;
        if (!m_is_acked)
        {
            Forget();
        }
        return !m_is_acked;
    }
    /** Whether the latest ACK was of the retransmission, or of its original: it does not tell. */
    bool IsAcked() const { return m_is_acked; }

  private:
    static constexpr uint64_t NONE = std::numeric_limits<uint64_t>::max();

    int64_t m_deadline_ns = NEVER_NS;
    int64_t m_head_timeout_ns = NEVER_NS;
    uint64_t m_high_segment = NONE; ///< what was next when the probe left (tlp_high_seq); NONE: no probe is out
    bool m_is_on = true;
    bool m_is_limited_by_head = false;
    bool m_is_retransmission = false;
    bool m_is_app_limited = false;
    bool m_is_acked = false;
};

} // namespace bbrgym

#endif
