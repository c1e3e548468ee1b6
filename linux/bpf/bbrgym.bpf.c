// SPDX-License-Identifier: GPL-2.0-only
/*
 * cc/ as a congestion control of the kernel: each hook translates what the kernel reports into an event of cc/, and the
 * window and pacing rate that cc/ answers into the socket's.
 *
 *   init                      -> start       ssthresh, set_state -> change of the loss state, timeout
 *   cong_control              -> ACK         cwnd_event          -> restart from idle
 *   undo_cwnd                 -> undo
 *
 * One program text for all variants of a generation: a flow's settings say which. v1 is one program, v2 and v3 are
 * another
 * (-DBBRGYM_BBR3), in which cong_control and set_state tell first of packets lost (flights.h). With cong_control the
 * kernel leaves the window to the algorithm in recovery too, which is right for BBR; for the loss-based ones it would
 * need the kernel's rate reduction.
 */
#include "kernel.h"
#ifdef BBRGYM_BBR3
#include "flights.h"
#endif
#ifdef BBRGYM_POLICY
#include "policy.h"
#endif

char _license[] SEC("license") = "GPL";

#define TCP_INFINITE_SSTHRESH 0x7fffffff
#define TCP_REORDERING_PKTS 3 /* the sysctl tcp_reordering, as it is by default */
#define TCP_CHRONO_BUSY 1
#define SK_PACING_NONE 0
#define SK_PACING_NEEDED 1
#define SNDBUF_WINDOWS 3 /* as tcp_bbr.c: room for a window that doubles, and its repairs */
#define RECORDS_BYTES (1 << 24)

struct {
    __uint(type, BPF_MAP_TYPE_SK_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, int);
    __type(value, struct bpf_flow_settings);
} settings_of SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_SK_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, int);
    __type(value, struct bpf_flow);
} flow_of SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, RECORDS_BYTES);
} records SEC(".maps");

/*
 * Of a socket that user space gave none. User space may change them at any time: the parameters first, the generation
 * after them, so that a socket that sees the new generation takes whole parameters.
 */
struct bpf_flow_settings default_settings SEC(".data.settings") = {};

/* ---- cc/ ---- */

/*
 * Tells cc/ an event. The verifier checks a function that is global once, whatever calls it, and it takes nothing for
 * granted.
 */
#define EVENT_FUNCTION(name, kind_)                                                                                    \
    __noinline int name(struct bpf_flow *flow, const struct bpf_flow_settings *settings,                               \
                        const struct bpf_event *event)                                                                 \
    {                                                                                                                  \
        if (!flow || !settings || !event || event->kind != (kind_))                                                    \
            return 0;                                                                                                  \
        bpf_event_apply(&flow->state, &settings->params, event);                                                       \
        return 0;                                                                                                      \
    }

EVENT_FUNCTION(tell_start, BPF_EVENT_START)
EVENT_FUNCTION(tell_ack, BPF_EVENT_ACK)
EVENT_FUNCTION(tell_loss_state, BPF_EVENT_LOSS_STATE)
EVENT_FUNCTION(tell_timeout, BPF_EVENT_TIMEOUT)
EVENT_FUNCTION(tell_restart, BPF_EVENT_RESTART)
EVENT_FUNCTION(tell_undo, BPF_EVENT_UNDO)

/* A full buffer loses the record; the next one's number shows it. */
__noinline int record(const struct bpf_flow *flow, const struct bpf_flow_settings *settings,
                      const struct bpf_event *event)
{
    struct bpf_record *place;

    if (!flow || !settings || !event)
        return 0;
    place = bpf_ringbuf_reserve(&records, sizeof(*place), 0);
    if (!place)
        return 0;
    place->number = flow->events;
    place->flow = settings->flow;
    bpf_probe_read_kernel(&place->event, sizeof(place->event), event);
    bpf_probe_read_kernel(&place->params, sizeof(place->params), &settings->params);
    bpf_probe_read_kernel(&place->after, sizeof(place->after), &flow->state);
    bpf_ringbuf_submit(place, 0);
    return 0;
}

/* ---- the socket ---- */

/* Where a socket's part is kept. */
struct place {
    struct bpf_flow_settings *settings;
    struct bpf_flow *flow;
};

/* Begins an event: user space sees by an odd `changes` that the flow is not whole. False: init found no memory. */
static __always_inline bool begin_event(struct sock *sk, struct place *at)
{
    at->settings = bpf_sk_storage_get(&settings_of, sk, 0, 0);
    at->flow = bpf_sk_storage_get(&flow_of, sk, 0, 0);
    if (!at->settings || !at->flow)
        return false;
    __sync_fetch_and_add(&at->flow->changes, 1);
    if (at->settings->generation != default_settings.generation) {
        at->settings->generation = default_settings.generation;
        at->settings->params = default_settings.params;
        at->settings->floor = default_settings.floor;
    }
    return true;
}

/* Ends an event. */
static __always_inline void end_event(const struct place *at, const struct bpf_event *event)
{
    if (at->settings->is_recorded)
        record(at->flow, at->settings, event);
    at->flow->events++;
    __sync_fetch_and_add(&at->flow->changes, 1);
}

/* Linux tcp_is_cwnd_limited */
static __always_inline bool is_cwnd_limited(const struct tcp_sock *tp)
{
    if (READ_BITS(tp, is_cwnd_limited))
        return true;
    return tp->snd_cwnd < tp->snd_ssthresh && tp->snd_cwnd < 2 * tp->max_packets_out;
}

static __always_inline uint64_t min_rtt_us(const struct tcp_sock *tp)
{
    uint32_t rtt_us = tp->rtt_min.s[0].v;

    return rtt_us == UINT32_MAX ? CC_RTT_UNKNOWN_US : rtt_us;
}

/* Until pacing lets the next packet leave (Linux bbr_packets_in_net_at_edt). */
static __always_inline uint32_t departure_wait_us(const struct tcp_sock *tp)
{
    return cc_clamp_to_u32(cc_sub_sat(tp->tcp_wstamp_ns, tp->tcp_clock_cache) / 1000);
}

/* The window and pacing rate that cc/ decided. */
static __always_inline void set_socket(struct sock *sk, const struct cc_state *state)
{
    struct tcp_sock *tp = (struct tcp_sock *)sk;

    tp->snd_cwnd = cc_min_u32(state->cwnd_pkts, tp->snd_cwnd_clamp);
    sk->sk_pacing_rate = cc_min_u64(state->pacing_Bps, sk->sk_max_pacing_rate);
}

static __always_inline void set_ssthresh(struct sock *sk, const struct cc_state *state)
{
    ((struct tcp_sock *)sk)->snd_ssthresh = cc_min_u32(state->ssthresh_pkts, TCP_INFINITE_SSTHRESH);
}

/* ---- what BBRv3 asks beside ---- */

#ifdef BBRGYM_BBR3

EVENT_FUNCTION(tell_lost, BPF_EVENT_LOST)
EVENT_FUNCTION(tell_probe_repair, BPF_EVENT_PROBE_REPAIR)

struct {
    __uint(type, BPF_MAP_TYPE_SK_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, int);
    __type(value, struct bpf_flights);
} flights_of SEC(".maps");

static __always_inline void start_flights(struct sock *sk)
{
    struct tcp_sock *tp = (struct tcp_sock *)sk;
    struct bpf_flights *flights;

    bpf_sk_storage_delete(&flights_of, sk);
    flights = bpf_sk_storage_get(&flights_of, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
    if (!flights)
        return; /* no sample tells of a flight */
    flights->told_lost_pkts = flights->newest.lost_pkts = tp->lost;
    keep_flight(flights, tp);
}

static __always_inline void tell_losses(struct sock *sk)
{
    struct bpf_flights *flights = bpf_sk_storage_get(&flights_of, sk, 0, 0);
    struct tcp_sock *tp = (struct tcp_sock *)sk;
    struct bpf_event event = {};
    struct place at;

    if (!flights || tp->lost == flights->told_lost_pkts || !begin_event(sk, &at))
        return;
    fill_lost(&event, flights, tp);
    tell_lost(at.flow, at.settings, &event);
    end_event(&at, &event);
}

static __always_inline void sample_flight(struct sock *sk, struct cc_sample *sample, uint32_t ack, int flag,
                                          const struct rate_sample *rs)
{
    struct bpf_flights *flights = bpf_sk_storage_get(&flights_of, sk, 0, 0);

    if (flights)
        fill_flight(sample, flights, (struct tcp_sock *)sk, ack, flag, rs);
}

static __always_inline void end_ack(struct sock *sk)
{
    struct bpf_flights *flights = bpf_sk_storage_get(&flights_of, sk, 0, 0);

    if (!flights)
        return;
    flights->is_reducing = false;
    keep_flight(flights, (struct tcp_sock *)sk);
}

/* v3 restores the window when a timeout's episode ends or was spurious, v1 with the next ACK. */
static __always_inline void end_loss_state(struct sock *sk, const struct cc_state *state)
{
    struct bpf_flights *flights = bpf_sk_storage_get(&flights_of, sk, 0, 0);

    set_socket(sk, state);
    if (flights)
        keep_flight(flights, (struct tcp_sock *)sk);
}

static __always_inline void end_undo(struct sock *sk, const struct cc_state *state) { set_socket(sk, state); }

/* The kernel reduces the window and is done with it in one ACK: a tail loss probe repaired a loss. */
static __always_inline void tell_repair(struct sock *sk, uint8_t new_state)
{
    struct bpf_flights *flights = bpf_sk_storage_get(&flights_of, sk, 0, 0);
    struct bpf_event event = { .kind = BPF_EVENT_PROBE_REPAIR };
    struct tcp_sock *tp = (struct tcp_sock *)sk;
    struct place at;
    bool is_repair;

    if (!flights)
        return;
    is_repair = flights->is_reducing && new_state < CC_CA_CWR;
    flights->is_reducing = new_state == CC_CA_CWR;
    if (!is_repair || !begin_event(sk, &at))
        return;
    event.probe_repair.now_us = tp->tcp_mstamp;
    event.probe_repair.delivered_pkts = tp->delivered;
    event.probe_repair.is_app_limited = flights->newest.is_app_limited;
    tell_probe_repair(at.flow, at.settings, &event);
    end_event(&at, &event);
}

#else

static __always_inline void start_flights(struct sock *sk) {}
static __always_inline void tell_losses(struct sock *sk) {}
static __always_inline void sample_flight(struct sock *sk, struct cc_sample *sample, uint32_t ack, int flag,
                                          const struct rate_sample *rs)
{
}
static __always_inline void end_ack(struct sock *sk) {}
static __always_inline void end_loss_state(struct sock *sk, const struct cc_state *state) {}
static __always_inline void end_undo(struct sock *sk, const struct cc_state *state) {}
static __always_inline void tell_repair(struct sock *sk, uint8_t new_state) {}

#endif

/* ---- the policy ---- */

#ifdef BBRGYM_POLICY

struct {
    __uint(type, BPF_MAP_TYPE_SK_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, int);
    __type(value, struct bpf_policy);
} policy_of SEC(".maps");

const volatile struct bpf_policy_about policy_about SEC(".rodata.policy") = { POLICY_VARIANT };

static __always_inline void count_totals(struct bpf_policy *policy, const struct tcp_sock *tp)
{
    policy->totals.now_us = tp->tcp_mstamp;
    policy->totals.delivered_pkts = tp->delivered;
    policy->totals.sent_pkts = tp->data_segs_out;
    policy->totals.retransmitted_pkts = tp->total_retrans;
    policy->totals.lost_pkts = tp->lost;
}

/* In jiffies: now, and the time in which data waited for the network alone (Linux TCP_CHRONO_BUSY). */
static __always_inline void count_limited(struct floor_watch *watch, const struct tcp_sock *tp)
{
    watch->jiffies = (uint32_t)bpf_jiffies64();
    watch->limited = tp->chrono_stat[TCP_CHRONO_BUSY - 1];
    if (READ_BITS(tp, chrono_type) == TCP_CHRONO_BUSY)
        watch->limited += watch->jiffies - tp->chrono_start;
}

/* The first decision, of which nothing is known yet. */
static __always_inline void start_policy(struct sock *sk, const struct place *at)
{
    struct bpf_policy *policy;

    bpf_sk_storage_delete(&policy_of, sk);
    if (!at->settings->has_policy)
        return;
    policy = bpf_sk_storage_get(&policy_of, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
    if (!policy)
        return;
    count_totals(policy, (struct tcp_sock *)sk);
    policy->before = policy->totals;
    policy->next_us = policy->floor.began_us = policy->totals.now_us;
    policy->floor.began_delivered_pkts = policy->totals.delivered_pkts;
    count_limited(&policy->floor, (struct tcp_sock *)sk);
    policy->floor.began_jiffies = policy->floor.jiffies;
    policy->floor.began_limited = policy->floor.limited;
    policy_start(policy, at->settings);
    policy_step(policy, at->settings);
}

static __always_inline void run_policy(struct sock *sk, const struct place *at, const struct cc_sample *sample,
                                       const struct rate_sample *rs)
{
    struct bpf_policy *policy = bpf_sk_storage_get(&policy_of, sk, 0, 0);
    struct tcp_sock *tp = (struct tcp_sock *)sk;

    if (!policy || at->flow->fallen)
        return;
    count_limited(&policy->floor, tp);
    floor_take(&policy->floor, at->flow, at->settings, sample, tp->mss_cache);
    if (at->flow->fallen) {
        at->settings->params = default_settings.params;
        return;
    }
    if (rs->rtt_us >= 0)
        policy_take_rtt(policy, (uint32_t)cc_min_u64((uint64_t)rs->rtt_us, MAX_RTT_US));
    if (tp->tcp_mstamp < policy->next_us)
        return;
    count_totals(policy, tp);
    policy->measured.cwnd_pkts = tp->snd_cwnd;
    policy->measured.in_flight_pkts = in_flight_pkts(tp);
    policy->measured.srtt_us = tp->srtt_us >> 3;
    policy->measured.app_limited = rs->is_app_limited;
    policy_measure(policy, at->flow, at->settings, tp->mss_cache);
    policy_step(policy, at->settings);
}

static __always_inline void note_timeout(struct sock *sk)
{
    struct bpf_policy *policy = bpf_sk_storage_get(&policy_of, sk, 0, 0);

    if (policy)
        policy->rto_count++;
}

#else

static __always_inline void start_policy(struct sock *sk, const struct place *at) {}
static __always_inline void run_policy(struct sock *sk, const struct place *at, const struct cc_sample *sample,
                                       const struct rate_sample *rs)
{
}
static __always_inline void note_timeout(struct sock *sk) {}

#endif

/* ---- hooks ---- */

/* The connection is established, or it took this congestion control later on. */
SEC("struct_ops/init")
void BPF_HOOK(init, struct sock *sk)
{
    struct tcp_sock *tp = (struct tcp_sock *)sk;
    struct bpf_event event = { .kind = BPF_EVENT_START };
    struct place at;

    bpf_sk_storage_get(&settings_of, sk, &default_settings, BPF_SK_STORAGE_GET_F_CREATE);
    bpf_sk_storage_get(&flow_of, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
    if (!begin_event(sk, &at))
        return; /* the window stays as it is */
    at.flow->start_us = tp->tcp_mstamp;
    at.flow->events = 0;
    at.flow->acks = 0;
    at.flow->asked_ssthresh = false;
    at.flow->fallen = BPF_FALLEN_NOT;
    at.flow->total_lost_pkts = tp->lost;
    event.start.now_us = tp->tcp_mstamp;
    event.start.srtt_us = tp->srtt_us >> 3;
    event.start.min_rtt_us = min_rtt_us(tp);
    event.start.rng_seed = at.settings->rng_seed;
    event.start.mss_bytes = tp->mss_cache;
    event.start.initial_cwnd_pkts = tp->snd_cwnd;
    start_policy(sk, &at);
    start_flights(sk);
    tell_start(at.flow, at.settings, &event);
    set_socket(sk, &at.flow->state);
    set_ssthresh(sk, &at.flow->state);
    if (at.settings->is_paced && sk->sk_pacing_status == SK_PACING_NONE)
        sk->sk_pacing_status = SK_PACING_NEEDED;
    end_event(&at, &event);
}

static __always_inline void fill_sample(struct cc_sample *sample, const struct tcp_sock *tp,
                                        const struct rate_sample *rs)
{
    sample->now_us = tp->tcp_mstamp;
    sample->delivered_time_us = tp->delivered_mstamp;
    sample->delivered_pkts = tp->delivered;
    sample->prior_delivered_pkts = rs->prior_delivered;
    sample->total_lost_pkts = tp->lost;
    sample->sample_pkts = rs->delivered;
    sample->interval_us = rs->interval_us;
    sample->rtt_us = rs->rtt_us;
    sample->srtt_us = tp->srtt_us >> 3;
    sample->min_rtt_us = min_rtt_us(tp);
    sample->una_pkts = tp->bytes_acked / cc_max_u32(tp->mss_cache, 1);
    sample->acked_pkts = rs->acked_sacked;
    sample->lost_pkts = (uint32_t)rs->losses;
    sample->prior_in_flight_pkts = rs->prior_in_flight;
    sample->in_flight_pkts = in_flight_pkts(tp);
    sample->departure_wait_us = departure_wait_us(tp);
    sample->ca_state = READ_BITS(&tp->inet_conn, icsk_ca_state);
    sample->is_app_limited = rs->is_app_limited;
    sample->is_ack_delayed = rs->is_ack_delayed;
    sample->is_reordering = tp->reordering > TCP_REORDERING_PKTS;
    sample->is_cwnd_limited = is_cwnd_limited(tp);
}

SEC("struct_ops/cong_control")
void BPF_HOOK(cong_control, struct sock *sk, uint32_t ack, int flag, const struct rate_sample *rs)
{
    struct tcp_sock *tp = (struct tcp_sock *)sk;
    struct bpf_event event = { .kind = BPF_EVENT_ACK };
    uint32_t ssthresh_pkts;
    struct place at;

    tell_losses(sk);
    if (!begin_event(sk, &at))
        return;
    event.cwnd_pkts = tp->snd_cwnd;
    fill_sample(&event.sample, tp, rs);
    sample_flight(sk, &event.sample, ack, flag, rs);
    ssthresh_pkts = at.flow->state.ssthresh_pkts;
    run_policy(sk, &at, &event.sample, rs);
    tell_ack(at.flow, at.settings, &event);
    set_socket(sk, &at.flow->state);
    if (at.flow->state.ssthresh_pkts != ssthresh_pkts)
        set_ssthresh(sk, &at.flow->state);
    if (at.flow->state.mark_app_limited)
        tp->app_limited = cc_max_u32(tp->delivered + in_flight_pkts(tp), 1);
    at.flow->acks++;
    at.flow->total_lost_pkts = tp->lost;
    end_ack(sk);
    end_event(&at, &event);
}

/* An episode of loss begins, of which set_state tells the kind next. BBR answers with no threshold of its own. */
SEC("struct_ops/ssthresh")
uint32_t BPF_HOOK(ssthresh, struct sock *sk)
{
    struct bpf_flow *flow = bpf_sk_storage_get(&flow_of, sk, 0, 0);

    if (flow)
        flow->asked_ssthresh = true;
    return ((struct tcp_sock *)sk)->snd_ssthresh;
}

SEC("struct_ops/set_state")
void BPF_HOOK(set_state, struct sock *sk, uint8_t new_state)
{
    struct tcp_sock *tp = (struct tcp_sock *)sk;
    struct bpf_event event = {};
    struct place at;

    tell_losses(sk);
    if (!begin_event(sk, &at))
        return;
    if (new_state == CC_CA_LOSS) {
        event.kind = BPF_EVENT_TIMEOUT;
        event.timeout.total_lost_pkts = tp->lost;
        event.timeout.in_flight_pkts = in_flight_pkts(tp);
        event.timeout.asked_ssthresh = at.flow->asked_ssthresh;
        at.flow->total_lost_pkts = tp->lost;
        note_timeout(sk);
        tell_timeout(at.flow, at.settings, &event);
    } else {
        event.kind = BPF_EVENT_LOSS_STATE;
        event.loss_state.new_state = new_state;
        event.loss_state.in_flight_pkts = in_flight_pkts(tp);
        tell_loss_state(at.flow, at.settings, &event);
    }
    at.flow->asked_ssthresh = false;
    end_loss_state(sk, &at.flow->state);
    end_event(&at, &event);
    tell_repair(sk, new_state);
}

SEC("struct_ops/cwnd_event")
void BPF_HOOK(cwnd_event, struct sock *sk, enum tcp_ca_event kind)
{
    struct tcp_sock *tp = (struct tcp_sock *)sk;
    struct bpf_event event = { .kind = BPF_EVENT_RESTART };
    struct place at;

    if (kind != CA_EVENT_TX_START || !begin_event(sk, &at))
        return;
    event.restart.now_us = tp->tcp_mstamp;
    event.restart.is_app_limited = tp->app_limited != 0;
    tell_restart(at.flow, at.settings, &event);
    set_socket(sk, &at.flow->state);
    end_event(&at, &event);
}

SEC("struct_ops/undo_cwnd")
uint32_t BPF_HOOK(undo_cwnd, struct sock *sk)
{
    struct bpf_event event = { .kind = BPF_EVENT_UNDO };
    struct place at;

    if (begin_event(sk, &at)) {
        tell_undo(at.flow, at.settings, &event);
        end_undo(sk, &at.flow->state);
        end_event(&at, &event);
    }
    return ((struct tcp_sock *)sk)->snd_cwnd;
}

/* Linux bbr_min_tso_segs; above that rate the kernel's own answer without this hook, tcp_min_tso_segs, is the same. */
SEC("struct_ops/min_tso_segs")
uint32_t BPF_HOOK(min_tso_segs, struct sock *sk)
{
    const struct bpf_flow_settings *settings = bpf_sk_storage_get(&settings_of, sk, 0, 0);
    bool is_slow = sk->sk_pacing_rate < BBR_MIN_TSO_RATE_Bps;

    return is_slow && settings && cc_may_send_singles(&settings->params) ? 1 : 2;
}

SEC("struct_ops/sndbuf_expand")
uint32_t BPF_HOOK(sndbuf_expand, struct sock *sk) { return SNDBUF_WINDOWS; }

/* ---- connections and sockets, for user space ---- */

#include "iterators.h"

#define HOOKS                                                                                                          \
    .init = (void *)init, .cong_control = (void *)cong_control, .ssthresh = (void *)ssthresh,                          \
    .set_state = (void *)set_state, .cwnd_event = (void *)cwnd_event, .undo_cwnd = (void *)undo_cwnd,                  \
    .sndbuf_expand = (void *)sndbuf_expand, .name = "bbrgym_unnamed", .flags = TCP_CONG_NON_RESTRICTED

/*
 * One of the two is registered; the loader writes a name of its own over theirs.
 *
 * A kernel may leave out a program, seen on a 6.18 where a timer had interrupted threads of process 1: what the hook
 * answers is then whatever was in memory, and min_tso_segs, asked by the pacing timer, lets a whole window leave as one
 * burst 20 to 40 times a minute. The other hooks run with the packets that the emulator writes, and so in its thread.
 */
SEC(".struct_ops")
struct tcp_congestion_ops bbrgym_ops = { HOOKS };

SEC(".struct_ops")
struct tcp_congestion_ops bbrgym_slow_ops = { HOOKS, .min_tso_segs = (void *)min_tso_segs };
