/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * State and tables of a policy. In the one header that `bbrgym export format=c` writes stand:
 *
 *   sizes (#define)   policy_types.h   tables   policy_runtime.h
 */
#include <stdbool.h>
#include <stdint.h>

/*
 * BPF's verifier checks a global function once, apart from its callers. It does not know that an index into a table is
 * below the table's size, which the compiler may know; policy_inside shows it.
 */
#ifdef __bpf__
#define POLICY_ALONE __attribute__((noinline))
/* Small tables of the file alone would go to a section for equal constants, which BTF lacks. */
#define POLICY_TABLE const __attribute__((visibility("hidden")))
static inline uint32_t policy_inside(uint32_t index, uint32_t count)
{
    __asm__ volatile("" : "+r"(index));
    return index < count ? index : 0;
}
#else
#define POLICY_ALONE static inline
#define POLICY_TABLE static const
static inline uint32_t policy_inside(uint32_t index, uint32_t count)
{
    (void)count;
    return index;
}
#endif

#define POLICY_ONE 65536 /* 1 in Q16 */

#define POLICY_FIELD_INDEX(name, source, per_unit) POLICY_FIELD_##name,
enum policy_field { POLICY_FIELDS(POLICY_FIELD_INDEX) POLICY_FIELD_COUNT };
#define POLICY_TUNABLE_INDEX(name, kind, per_unit) POLICY_TUNABLE_##name,
enum policy_tunable_index { POLICY_TUNABLES(POLICY_TUNABLE_INDEX) POLICY_TUNABLE_COUNT };

/* ---- state ---- */

struct policy_state {
    int64_t fields[POLICY_FLOWS][POLICY_FIELD_COUNT]; /* the caller writes those of the last interval */
    int64_t tunables[POLICY_TUNABLE_COUNT];           /* written before policy_begin, read after policy_decide */
    uint32_t flows;                                   /* the caller writes how many rows of fields hold a flow */
    uint32_t has_decided;
    int32_t positions[POLICY_TUNABLE_COUNT]; /* of the tunables in their ranges */
    int32_t features[POLICY_FLOWS][POLICY_FEATURES];
    int32_t layers[2][POLICY_WIDEST]; /* the outputs of the network are layers[0] */
#if POLICY_MEMORIES > 0
    int64_t remembered[POLICY_FLOWS][POLICY_MEMORIES];
    int64_t sums[POLICY_FLOWS][POLICY_MEMORIES];    /* or extremes */
    int64_t weights[POLICY_FLOWS][POLICY_MEMORIES]; /* 0: no interval counted yet */
    int64_t former[POLICY_FLOWS][POLICY_MEMORIES];  /* of POLICY_LOW, smallest value of the half before; -1: none */
#endif
    int32_t inputs[POLICY_INPUTS]; /* of the network; of several intervals the oldest first */
#if POLICY_IDENTIFICATION > 0
    int64_t cells[POLICY_CELLS];     /* of the program, Q20 */
    int32_t history[POLICY_HISTORY]; /* features of the last intervals, Q20, the oldest first */
    uint32_t observed;               /* intervals in the history */
    uint32_t chosen;                 /* row of policy_settings */
#else
    uint32_t ticks; /* intervals since the last decision */
#endif
};

/* ---- tables ---- */

enum policy_scale { POLICY_LOG, POLICY_LINEAR, POLICY_WITHIN, POLICY_WHOLE };

/* Feature ((y - low) * factor) >> (56 - POLICY_FEATURE_BITS): y is the field (divided by another one) or its log2 in
 * Q20. */
struct policy_feature {
    int64_t low;
    int64_t span;
    int64_t factor;
    uint32_t scale; /* enum policy_scale */
    uint32_t field;
    uint32_t per; /* UINT32_MAX: not divided */
};

enum policy_memory_kind {
    POLICY_MAX,
    POLICY_MIN,
    POLICY_MEAN,
    POLICY_EWMA,
    POLICY_TOTAL,
    POLICY_SECONDS,
    POLICY_LOW,
    POLICY_HIGH
};

/* Number remembered of a field, or of its difference from another one. */
struct policy_memory {
    uint32_t kind; /* enum policy_memory_kind */
    uint32_t field;
    uint32_t minus; /* POLICY_FIELD_COUNT: nothing is subtracted */
    /* of POLICY_EWMA: weight of an interval relative to the next one, Q32; of POLICY_HIGH: what an interval leaves of a
     * difference, Q32; of POLICY_LOW: intervals in half of its time */
    uint32_t keep;
    uint32_t digits; /* of a mean behind the point; of POLICY_EWMA a measurement has at most 34 - digits bits */
};

struct policy_tunable {
    int64_t low;
    int64_t high;
    int64_t low_log2; /* in Q20, of the exact ends */
    int64_t high_log2;
    int64_t least;      /* bound from below by a tunable that the policy does not set */
    uint32_t not_below; /* the tunable that bounds it from below; POLICY_TUNABLE_COUNT: none does */
    uint32_t scale;     /* enum policy_scale */
    int32_t step;       /* distance by which an output of 1 moves the position */
    int32_t limit;      /* largest distance that a position moves */
};
