/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What user space reads from a version that is loaded: its connections, in all network namespaces; and the sockets of
 * the reader's network namespace, which may thereby be given another congestion control.
 */
#ifndef BBRGYM_LINUX_BPF_ITERATORS_H
#define BBRGYM_LINUX_BPF_ITERATORS_H

#include "addresses.h"

/* A row (bpf_flow_row) for each connection that ever had this congestion control, over flow_of. */
SEC("iter/bpf_sk_storage_map")
int flows(struct bpf_iter__bpf_sk_storage_map *context)
{
    struct bpf_connection is = {};
    struct bpf_flow_settings *settings;
    struct sock *sk = context->sk;
    void *state = context->value;
    struct tcp_sock *tp;

    if (!sk || !state || sk->__sk_common.skc_state == TCP_CLOSE) /* it ended, and its program has not closed it */
        return 0;
    tp = bpf_skc_to_tcp_sock(sk);
    settings = bpf_sk_storage_get(&settings_of, sk, 0, 0);
    if (!tp || !settings)
        return 0;
    bpf_probe_read_kernel(is.control, sizeof(is.control), tp->inet_conn.icsk_ca_ops->name);
    is.cookie = bpf_get_socket_cookie(sk);
    is.now_us = bpf_ktime_get_ns() / 1000;
    is.acked_bytes = tp->bytes_acked;
    is.family = sk->__sk_common.skc_family;
    is.local_port = sk->__sk_common.skc_num;
    is.remote_port = __builtin_bswap16(sk->__sk_common.skc_dport);
    read_address(is.local, is.family, sk->__sk_common.skc_rcv_saddr, &sk->__sk_common.skc_v6_rcv_saddr);
    read_address(is.remote, is.family, sk->__sk_common.skc_daddr, &sk->__sk_common.skc_v6_daddr);
    is.mss_bytes = tp->mss_cache;
    is.cwnd_pkts = tp->snd_cwnd;
    is.in_flight_pkts = in_flight_pkts(tp);
    is.retransmitted_pkts = tp->total_retrans;
    is.lost_pkts = tp->lost;
    is.delivered_pkts = tp->delivered;
    is.srtt_us = tp->srtt_us >> 3;
    is.is_app_limited = tp->app_limited != 0;
    is.sacked_pkts = tp->sacked_out;
    bpf_seq_write(context->meta->seq, &is, sizeof(is)); /* a row that finds no room is shown again by the kernel */
    bpf_seq_write(context->meta->seq, state, sizeof(struct bpf_flow));
    bpf_seq_write(context->meta->seq, settings, sizeof(*settings));
    return 0;
}

struct bpf_move move SEC(".data.move") = {};

/* Moves the sockets, listening ones too; a byte for each that has `from`: 1 if it was moved, else 0. */
SEC("iter/tcp")
int sockets(struct bpf_iter__tcp *context)
{
    char name[sizeof(move.from)] = {};
    struct sock_common *sk = context->sk_common;
    struct tcp_sock *tp;
    uint8_t is_moved;
    int at;

    if (!sk)
        return 0;
    tp = bpf_skc_to_tcp_sock(sk);
    if (!tp || bpf_getsockopt(tp, SOL_TCP, TCP_CONGESTION, name, sizeof(name)))
        return 0;
    for (at = 0; at < (int)sizeof(name); at++) {
        if (name[at] != move.from[at])
            return 0;
        if (name[at] == 0)
            break;
    }
    is_moved = move.to[0] != 0 && bpf_setsockopt(tp, SOL_TCP, TCP_CONGESTION, move.to, sizeof(move.to)) == 0;
    bpf_seq_write(context->meta->seq, &is_moved, sizeof(is_moved));
    return 0;
}

#endif
