// SPDX-License-Identifier: GPL-2.0-only
//
// The delivery-rate sampler (Linux: tcp_rate.c; draft-cheng-iccrg-delivery-rate-estimation): the packets delivered
// between a segment's departure and its delivery, over the longer of the times that sending and acknowledging them
// took.
//
//   delivered = packets newly acknowledged, cumulatively or selectively, each counted once, and those that D-SACKs
//   report
//
// ns-3.28 keeps a sample over ACKs instead (rate_sample: kept).
#ifndef BBRGYM_TCP_DELIVERY_RATE_HPP
#define BBRGYM_TCP_DELIVERY_RATE_HPP

#include "segment.hpp"

#include <algorithm>
#include <cstdint>

namespace bbrgym
{

/** The delivery-rate sample of one ACK; -1: invalid. */
struct RateSample
{
    int64_t sample_pkts = -1;
    int64_t interval_ns = -1;
    uint64_t prior_delivered_pkts = 0;
    bool is_app_limited = false;
    TxState at_send; ///< of the segment that it samples
};

class DeliveryRate
{
  public:
    void KeepSample(bool keeps) { m_keeps_sample = keeps; }
    bool KeepsSample() const { return m_keeps_sample; }

    uint64_t Delivered() const { return m_delivered_pkts; } ///< what came twice, as far as it was reported, twice
    uint64_t DeliveredOnce() const { return m_delivered_pkts - m_duplicate_pkts; }
    int64_t DeliveredTimeNs() const { return m_delivered_ns; }
    bool IsAppLimited() const { return m_app_limited_until != 0; }
    /** The application has no more data than what is in the network or delivered. */
    void MarkAppLimited(uint32_t in_flight_pkts)
    {
        m_app_limited_until = std::max<uint64_t>(m_delivered_pkts + in_flight_pkts, 1);
    }

    /** Notes in a segment that leaves what has been delivered by now; `is_alone`: nothing else is out. */
    [[gnu::always_inline]] void Snapshot(Segment& segment, bool is_alone, int64_t now_ns)
    {
        if (is_alone)
        {
            m_first_tx_ns = now_ns;
            m_delivered_ns = now_ns;
        }
        segment.sent_ns = now_ns;
        segment.first_tx_ns = m_first_tx_ns;
        segment.delivered_ns = m_delivered_ns;
        segment.SetDelivered(m_delivered_pkts);
        segment.app_limited = m_app_limited_until != 0;
    }

    // One ACK: first BeginAck, at last Sample.
    void BeginAck()
    {
        m_has_newest = false;
        m_delivered_before = m_delivered_pkts;
    }
    uint32_t AckedPkts() const { return static_cast<uint32_t>(m_delivered_pkts - m_delivered_before); }
    bool HasNewest() const { return m_has_newest; } ///< the ACK delivers a segment
    /** Packets that had been delivered when the newest segment delivered left. */
    uint64_t PriorDelivered() const { return m_delivered_pkts - m_newest.DeliveredSince(m_delivered_pkts); }
    void SetNewestTxState(const TxState& state) { m_newest_tx_state = state; }

    /** A D-SACK reports packets that came twice. */
    void OnDuplicate(uint64_t pkts)
    {
        m_delivered_pkts += pkts;
        m_duplicate_pkts += pkts;
    }

    /** Returns whether the segment delivered becomes the newest one. */
    bool OnDelivered(const Segment& segment, uint64_t seqno, int64_t now_ns)
    {
        ++m_delivered_pkts;
        if (m_keeps_sample)
        {
            Keep(segment, now_ns);
            return false;
        }
        const Transmission transmission{seqno, segment.sent_ns};
        if (m_has_newest && !transmission.IsAfter({m_newest_seqno, m_newest.sent_ns}))
        {
            return false;
        }
        SetNewest(segment, seqno);
        return true;
    }

    /** `pkts` segments are delivered in the order in which they left, up to `last`. */
    void OnDeliveredInOrder(const Segment& last, uint64_t seqno, std::size_t pkts)
    {
        m_delivered_pkts += pkts;
        SetNewest(last, seqno);
    }

    /** Returns the sample of the ACK; call after loss detection. `min_rtt_ns`: -1 if there is none yet. */
    RateSample Sample(int64_t min_rtt_ns, int64_t now_ns)
    {
        if (m_app_limited_until != 0 && m_delivered_pkts > m_app_limited_until)
        {
            m_app_limited_until = 0;
        }
        if (AckedPkts() > 0)
        {
            m_delivered_ns = now_ns;
        }
        if (m_keeps_sample)
        {
            return KeptSample(min_rtt_ns);
        }
        RateSample sample;
        if (!m_has_newest)
        {
            return sample;
        }
        sample.sample_pkts = m_newest.DeliveredSince(m_delivered_pkts);
        sample.prior_delivered_pkts = m_delivered_pkts - static_cast<uint64_t>(sample.sample_pkts);
        sample.is_app_limited = m_newest.app_limited;
        const int64_t send_phase_ns = m_newest.sent_ns - m_newest.first_tx_ns;
        const int64_t ack_phase_ns = now_ns - m_newest.delivered_ns;
        const int64_t interval_ns = std::max(send_phase_ns, ack_phase_ns);
        // Shorter than any round trip: the ACKs were compressed, and the rate would be meaningless.
        if (min_rtt_ns < 0 || interval_ns >= min_rtt_ns)
        {
            sample.interval_ns = interval_ns;
        }
        sample.at_send = m_newest_tx_state;
        return sample;
    }

  private:
    void SetNewest(const Segment& segment, uint64_t seqno)
    {
        m_has_newest = true;
        m_newest = segment;
        m_newest_seqno = seqno;
        m_first_tx_ns = segment.sent_ns;
    }

    /** A delivered segment becomes the sample if more was delivered when it left than when the sample's did. */
    void Keep(const Segment& segment, int64_t now_ns)
    {
        m_delivered_ns = now_ns;
        const uint64_t prior_delivered_pkts = m_delivered_pkts - segment.DeliveredSince(m_delivered_pkts);
        if (prior_delivered_pkts <= m_kept.prior_delivered_pkts)
        {
            return;
        }
        m_kept.prior_delivered_pkts = prior_delivered_pkts;
        m_kept.is_app_limited = segment.app_limited;
        m_kept.interval_ns = std::max(segment.sent_ns - segment.first_tx_ns, now_ns - segment.delivered_ns);
        m_first_tx_ns = segment.sent_ns;
    }

    /** The kept sample with what was delivered since, or its last rate if the interval is below the smallest RTT. */
    RateSample KeptSample(int64_t min_rtt_ns)
    {
        if (m_kept.prior_delivered_pkts == 0)
        {
            return {};
        }
        if (m_kept.interval_ns > 0 && (min_rtt_ns < 0 || m_kept.interval_ns >= min_rtt_ns))
        {
            m_kept.rate_pkts = static_cast<int64_t>(m_delivered_pkts - m_kept.prior_delivered_pkts);
            m_kept.rate_interval_ns = m_kept.interval_ns;
        }
        return {m_kept.rate_pkts, m_kept.rate_interval_ns, m_kept.prior_delivered_pkts, m_kept.is_app_limited};
    }

    uint64_t m_delivered_pkts = 0;
    uint64_t m_duplicate_pkts = 0; ///< of these, reported by D-SACKs
    int64_t m_delivered_ns = 0;
    int64_t m_first_tx_ns = 0;
    uint64_t m_app_limited_until = 0; ///< value of delivered at which the bubble is gone; 0: none

    // The newest segment delivered by the current ACK.
    uint64_t m_delivered_before = 0; ///< the ACK
    bool m_has_newest = false;
    bool m_keeps_sample = false; ///< rate_sample: kept
    uint64_t m_newest_seqno = 0;
    Segment m_newest;
    TxState m_newest_tx_state;

    /** The sample that is kept over ACKs. */
    struct
    {
        uint64_t prior_delivered_pkts = 0; ///< 0: none yet
        int64_t interval_ns = 0;
        bool is_app_limited = false;
        int64_t rate_pkts = -1; ///< of the last valid rate
        int64_t rate_interval_ns = -1;
    } m_kept;
};

} // namespace bbrgym

#endif
