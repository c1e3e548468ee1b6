// SPDX-License-Identifier: GPL-2.0-only
/*
 * Gives each new connection of a cgroup one of two congestion controls at random, and writes a row at its end.
 *
 *   established (passive, active) -> draw, TCP_CONGESTION       RTT -> a sample each round trip
 *   state                         -> the last data is acknowledged; closed: the row
 */
#include "addresses.h"
#include "compare.h"

char _license[] SEC("license") = "GPL";

#define ROWS_BYTES (1 << 22) /* of 30,000 connections that end between two looks of user space */

/* The kernel's ABI, include/uapi/linux/bpf.h: its loader translates these offsets. */
struct bpf_sock_ops {
    uint32_t op;
    uint32_t args[4];
    uint32_t family;
    uint32_t remote_ip4;
    uint32_t local_ip4;
    uint32_t remote_ip6[4];
    uint32_t local_ip6[4];
    uint32_t remote_port;
    uint32_t local_port;
    uint32_t is_fullsock;
    uint32_t snd_cwnd;
    uint32_t srtt_us; /* times 8 */
    uint32_t cb_flags;
    uint32_t between[24];
    struct sock *sk;
};
_Static_assert(__builtin_offsetof(struct bpf_sock_ops, sk) == 184, "as in the kernel's ABI");

enum { ACTIVE_ESTABLISHED = 4, PASSIVE_ESTABLISHED = 5, STATE = 10, RTT = 12 };
enum { STATE_FLAG = 1 << 2, RTT_FLAG = 1 << 3 };
enum { TCP_FIN_WAIT1 = 4, TCP_CLOSE_WAIT = 8, TCP_LAST_ACK = 9 };

static long (*const bpf_sock_ops_cb_flags_set)(struct bpf_sock_ops *context, int flags) = (void *)59;

struct bpf_comparison request SEC(".data.request") = {};
struct bpf_comparison_counts counts SEC(".data.counts") = {};

struct {
    __uint(type, BPF_MAP_TYPE_SK_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, int);
    __type(value, struct bpf_compared);
} compared SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, ROWS_BYTES);
} rows SEC(".maps");

/* SplitMix64's mixing of a counter: Steele, Lea and Flood, Fast splittable pseudorandom number generators, 2014. */
static __always_inline uint32_t draw(uint64_t cookie)
{
    uint64_t mixed = request.seed + cookie * 0x9e3779b97f4a7c15;

    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
    return (uint32_t)((mixed ^ (mixed >> 31)) >> 32);
}

static __always_inline bool is_asked_for(uint32_t port)
{
    uint32_t at;

    for (at = 0; at < BPF_COMPARED_PORTS && at < request.port_count; at++)
        if (request.ports[at] == port)
            return true;
    return request.port_count == 0;
}

static __always_inline void begin(struct bpf_sock_ops *context, struct sock *sk, struct tcp_sock *tp)
{
    const struct sock_common *ends = &((struct sock *)tp)->__sk_common;
    bool is_served = context->op == PASSIVE_ESTABLISHED; /* a peer opened it */
    uint32_t port = is_served ? ends->skc_num : __builtin_bswap16(ends->skc_dport);
    uint64_t cookie = bpf_get_socket_cookie(context);
    uint32_t arm = draw(cookie) < request.b_below;
    struct bpf_compared *is;

    if (!is_asked_for(port))
        return;
    if (bpf_setsockopt(context, SOL_TCP, TCP_CONGESTION, request.names[arm], sizeof(request.names[arm]))) {
        __sync_fetch_and_add(&counts.refused, 1);
        return;
    }
    is = bpf_sk_storage_get(&compared, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
    if (!is)
        return;
    is->cookie = cookie;
    is->arm = arm;
    is->start_us = bpf_ktime_get_ns() / 1000;
    is->given = (uint64_t)tp->inet_conn.icsk_ca_ops;
    is->acked_bytes = !is_served; /* of our SYN, which counts as a byte */
    is->port = port;
    is->family = ends->skc_family;
    read_address(is->remote, is->family, ends->skc_daddr, &ends->skc_v6_daddr);
    bpf_sock_ops_cb_flags_set(context, (int)(context->cb_flags | STATE_FLAG | RTT_FLAG));
    __sync_fetch_and_add(&counts.given[arm], 1);
}

static __always_inline void end(struct bpf_compared *is, const struct tcp_sock *tp)
{
    uint32_t unacked = tp->write_seq - tp->snd_una;
    struct bpf_compared *row;

    is->is_whole = is->finish_us != 0;
    if (!is->is_whole)
        is->finish_us = tp->delivered_mstamp;
    is->end_us = bpf_ktime_get_ns() / 1000;
    is->acked_bytes = tp->bytes_acked - is->acked_bytes - (is->has_fin && unacked == 0);
    bpf_probe_read_kernel(is->control, sizeof(is->control), tp->inet_conn.icsk_ca_ops->name);
    is->min_rtt_us = tp->rtt_min.s[0].v;
    is->sent_pkts = tp->data_segs_out;
    is->retransmitted_pkts = tp->total_retrans;
    row = bpf_ringbuf_reserve(&rows, sizeof(*row), 0);
    if (!row) {
        __sync_fetch_and_add(&counts.lost, 1);
        return;
    }
    *row = *is;
    bpf_ringbuf_submit(row, 0);
}

SEC("sockops")
int compare(struct bpf_sock_ops *context)
{
    struct sock *sk = context->sk;
    struct bpf_compared *is;
    struct tcp_sock *tp;

    if (!sk)
        return 1;
    tp = bpf_skc_to_tcp_sock(sk);
    if (!tp)
        return 1;
    if (context->op == ACTIVE_ESTABLISHED || context->op == PASSIVE_ESTABLISHED) {
        begin(context, sk, tp);
        return 1;
    }
    if (context->op != STATE && context->op != RTT)
        return 1;
    is = bpf_sk_storage_get(&compared, sk, 0, 0);
    if (!is)
        return 1;
    if (is->given != (uint64_t)tp->inet_conn.icsk_ca_ops)
        is->is_changed = 1;
    if (context->op == RTT) { /* kernels before 6.10 tell the smoothed RTT alone */
        is->rtt_sum_us += context->args[0] ? context->args[0] : context->srtt_us >> 3;
        is->rtt_samples++;
        return 1;
    }
    if (context->args[1] != TCP_CLOSE_WAIT && !is->finish_us && tp->write_seq - tp->snd_una <= is->has_fin)
        is->finish_us = tp->delivered_mstamp;
    if (context->args[1] == TCP_FIN_WAIT1 || context->args[1] == TCP_LAST_ACK)
        is->has_fin = 1; /* which the kernel queues next */
    if (context->args[1] == TCP_CLOSE)
        end(is, tp);
    return 1;
}
