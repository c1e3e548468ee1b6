// SPDX-License-Identifier: GPL-2.0-only
//
// The fields of a cc_sample that Python reads and writes, under their own names.
#ifndef BBRGYM_SAMPLE_FIELDS_HPP
#define BBRGYM_SAMPLE_FIELDS_HPP

// clang-format off
#define SAMPLE_FIELDS(X)                                                                                  \
    X(now_us) X(delivered_time_us) X(delivered_pkts) X(prior_delivered_pkts) X(total_lost_pkts)           \
    X(sample_pkts) X(interval_us) X(rtt_us) X(srtt_us) X(min_rtt_us) X(una_pkts) X(next_pkts)             \
    X(acked_pkts) X(lost_pkts) X(prior_in_flight_pkts) X(in_flight_pkts) X(departure_wait_us) X(ca_state) \
    X(is_app_limited) X(is_ack_delayed) X(has_sack) X(is_reordering) X(is_cwnd_limited)                   \
    X(tx_in_flight_pkts) X(lost_since_pkts) X(delivered_ce_pkts) X(total_ce_pkts) X(is_ece)               \
    X(is_acking_tlp)
// clang-format on

#endif
