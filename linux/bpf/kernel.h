/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the program reads and writes of the kernel: of each structure the fields used, in no order. Where they lie in
 * the running kernel is found out when the program is loaded (CO-RE), so the object fits every kernel that has them.
 */
#ifndef BBRGYM_LINUX_BPF_KERNEL_H
#define BBRGYM_LINUX_BPF_KERNEL_H

#include "flow.h"
#include "helpers.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct tcp_congestion_ops;

struct in6_addr {
    uint8_t bytes[16];
};

struct sock_common {
    uint32_t skc_daddr; /* in network order, as skc_dport */
    uint32_t skc_rcv_saddr;
    uint16_t skc_dport;
    uint16_t skc_num;
    uint16_t skc_family;
    uint8_t skc_state;
    struct in6_addr skc_v6_daddr;
    struct in6_addr skc_v6_rcv_saddr;
};

struct sock {
    struct sock_common __sk_common;
    unsigned long sk_pacing_rate; /* bytes/s */
    unsigned long sk_max_pacing_rate;
    uint32_t sk_pacing_status;
};

struct inet_connection_sock {
    const struct tcp_congestion_ops *icsk_ca_ops;
    uint8_t icsk_ca_state : 5;
};

struct minmax_sample {
    uint32_t v;
};

struct minmax {
    struct minmax_sample s[3];
};

struct tcp_sock {
    struct inet_connection_sock inet_conn;
    uint32_t snd_cwnd;
    uint32_t snd_cwnd_clamp;
    uint32_t snd_ssthresh;
    uint32_t mss_cache;
    uint32_t packets_out;
    uint32_t sacked_out;
    uint32_t lost_out;
    uint32_t retrans_out;
    uint32_t max_packets_out;
    uint32_t reordering;
    uint64_t bytes_acked;
    uint32_t delivered;
    uint32_t lost;
    uint32_t delivered_ce;
    uint32_t snd_una;
    uint32_t snd_nxt;
    uint32_t write_seq;
    uint32_t tlp_high_seq; /* 0: no tail loss probe is out */
    uint32_t app_limited;
    uint32_t data_segs_out;
    uint32_t total_retrans;
    uint32_t srtt_us; /* times 8 */
    struct minmax rtt_min;
    uint64_t tcp_mstamp;
    uint64_t delivered_mstamp;
    uint64_t tcp_wstamp_ns;
    uint64_t tcp_clock_cache;
    uint32_t chrono_start; /* in jiffies, as chrono_stat */
    uint32_t chrono_stat[3];
    uint8_t chrono_type : 2;
    uint8_t is_cwnd_limited : 1;
    uint8_t tlp_retrans : 1; /* the probe is a retransmission */
};

struct rate_sample {
    uint32_t prior_delivered;
    int32_t delivered;
    int32_t delivered_ce;
    long interval_us;
    long rtt_us;
    int losses;
    uint32_t acked_sacked;
    uint32_t prior_in_flight;
    uint32_t last_end_seq;
    bool is_app_limited;
    bool is_retrans;
    bool is_ack_delayed;
};

enum tcp_ca_event { CA_EVENT_TX_START };

struct tcp_congestion_ops {
    uint32_t (*ssthresh)(struct sock *sk);
    void (*set_state)(struct sock *sk, uint8_t new_state);
    void (*cwnd_event)(struct sock *sk, enum tcp_ca_event event);
    uint32_t (*min_tso_segs)(struct sock *sk);
    void (*cong_control)(struct sock *sk, uint32_t ack, int flag, const struct rate_sample *rs);
    uint32_t (*undo_cwnd)(struct sock *sk);
    uint32_t (*sndbuf_expand)(struct sock *sk);
    char name[16];
    uint32_t flags;
    void (*init)(struct sock *sk);
};

struct bpf_iter_meta {
    struct seq_file *seq;
};

struct bpf_iter__bpf_sk_storage_map {
    struct bpf_iter_meta *meta;
    struct bpf_map *map;
    struct sock *sk;
    void *value;
};

struct bpf_iter__tcp {
    struct bpf_iter_meta *meta;
    struct sock_common *sk_common;
};

#pragma clang attribute pop

#define TCP_CONG_NON_RESTRICTED 1 /* any user may choose it */

#define FLAG_ECE 0x40 /* of cong_control's flags: the ACK echoes a mark */

/* Linux tcp_packets_in_flight */
static __always_inline uint32_t in_flight_pkts(const struct tcp_sock *tp)
{
    return tp->packets_out - (tp->sacked_out + tp->lost_out) + tp->retrans_out;
}

#endif
