/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The interface of an algorithm in one file, which `bbrgym cc new FILE` begins: a row of algorithms.h whose events are
 * functions of the file. They have the arguments of the functions of cc.h; one that is not given does nothing.
 *
 * CC_STATE(struct mine): the file's own state, which own(state) returns: at most CC_OWN_BYTES, at first 0.
 *
 * CC_TUNABLES(LIST): LIST(T) has T(name, unit, default, low, high, scale, "meaning") for each tunable; unit ratio, us,
 * count or mode, scale linear or log. tunable(params, NAME) is its value: Q16 (65536 is 1) of a ratio, else whole.
 *
 * CC_PLUGIN(.on_ack = on_ack, ...): names the functions; the last line.
 *
 * All that a function remembers is in the state: it has no variables of its own, so that a run can be saved and
 * repeated. A file for the kernel keeps to integers and bounded loops.
 */
#ifndef BBRGYM_CC_PLUGIN_H
#define BBRGYM_CC_PLUGIN_H

#include "bbr.h"
#include "cubic.h"
#include "reno.h"

#define CC_PLUGIN_VERSION 1
#define CC_PLUGIN_TUNABLES 16
#define CC_PLUGIN_MAX_CWND_PKTS (1U << 30)

struct cc_plugin_tunable {
    const char *name;
    const char *unit;
    double preset, low, high; /* in natural units */
    const char *scale;
    const char *meaning;
};

struct cc_plugin {
    uint32_t version;
    uint32_t layout; /* of the structs that it was compiled with */
    uint32_t state_bytes;
    uint32_t tunable_count;
    const struct cc_plugin_tunable *tunables;
    /*
     * True: it sets cwnd_pkts and pacing_Bps on each ACK, in recovery too, and state->bbr is begun as BBR v1's. False:
     * it sets cwnd_pkts while there is no loss, and `reduce` sets ssthresh_pkts, to which the stack then reduces it.
     */
    bool paces;
    void (*init)(struct cc_state *state, const struct cc_params *params, const struct cc_start *start);
    void (*on_ack)(struct cc_state *state, const struct cc_params *params, const struct cc_sample *sample);
    void (*reduce)(struct cc_state *state, const struct cc_params *params, uint32_t in_flight_pkts);
    void (*on_loss_state)(struct cc_state *state, const struct cc_params *params, enum cc_ca_state old_state,
                          enum cc_ca_state new_state);
    void (*on_rto)(struct cc_state *state, const struct cc_params *params, bool saves, uint64_t total_lost_pkts);
    void (*on_restart)(struct cc_state *state, const struct cc_params *params, uint64_t now_us, bool app_limited);
    void (*on_undo)(struct cc_state *state, const struct cc_params *params);
    void (*on_packet_lost)(struct cc_state *state, const struct cc_params *params, const struct cc_lost_packet *lost);
    void (*refuse)(const struct cc_params *params, const struct cc_state *state); /* the host's: of cc_check_plugin */
};

/* Where a tunable of a file is in cc_params: in the places of v3's, which it does not have. */
#define CC_PLUGIN_FIRST(params)                                                                                        \
    ((const int64_t *)(const void *)((const char *)(params) + offsetof(struct cc_params, bbr3_startup_gain_q16)))
#define CC_PLUGIN_LAYOUT                                                                                               \
    ((uint32_t)(sizeof(struct cc_state) + (sizeof(struct cc_params) << 11) + (sizeof(struct cc_sample) << 22)))

#define CC_STATE(type)                                                                                                 \
    _Static_assert(sizeof(type) <= CC_OWN_BYTES, "the state is larger than CC_OWN_BYTES, 120");                        \
    enum { CC_STATE_BYTES = sizeof(type) };                                                                            \
    static inline type *own(struct cc_state *state) { return (type *)(void *)state->own; }

#define CC_TUNABLE_INDEX(name, ...) name,
#define CC_TUNABLE_ROW(name, unit, preset, low, high, scale, meaning)                                                  \
    { #name, #unit, preset, low, high, #scale, meaning },
#define CC_TUNABLES(LIST)                                                                                              \
    enum { LIST(CC_TUNABLE_INDEX) CC_TUNABLE_COUNT };                                                                  \
    static const struct cc_plugin_tunable cc_plugin_tunables[] = { LIST(CC_TUNABLE_ROW) };                             \
    static inline int64_t tunable(const struct cc_params *params, int index) { return CC_PLUGIN_FIRST(params)[index]; }

#ifdef __bpf__
#define CC_PLUGIN_LINKAGE static
#else
#define CC_PLUGIN_LINKAGE
#endif
#define CC_PLUGIN(...)                                                                                                 \
    CC_PLUGIN_LINKAGE const struct cc_plugin bbrgym_plugin = { .version = CC_PLUGIN_VERSION,                           \
                                                               .layout = CC_PLUGIN_LAYOUT,                             \
                                                               .state_bytes = CC_STATE_BYTES,                          \
                                                               .tunable_count = CC_TUNABLE_COUNT,                      \
                                                               .tunables = cc_plugin_tunables,                         \
                                                               __VA_ARGS__ };

#endif
