/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The parameters: the algorithm, the stack's generation, and, which may change at any time, the mechanisms switched on
 * and the tunables.
 */
#ifndef BBRGYM_CC_PARAMS_H
#define BBRGYM_CC_PARAMS_H

#include "arith.h"

enum cc_mechanism_index {
#define CC_MECHANISM(id, name, symbol, source) CC_MECHANISM_INDEX_##id,
#include "mechanisms.def"
#undef CC_MECHANISM
    CC_MECHANISM_COUNT
};

/* One bit per published mechanism. */
enum cc_mechanism {
    CC_BBR = 0,          /* BBR v1's own tunables need no mechanism */
    CC_BBR3 = 1 << 30,   /* nor do BBRv3's: no mechanism, but the owner of its tunables */
    CC_DIRECT = 1 << 29, /* of direct, the same */
    CC_SCALE = 1 << 28,  /* of what scaled.h scales, the same */
    CC_SWITCH = 1 << 27, /* of switch, the same */
#define CC_MECHANISM(id, name, symbol, source) CC_##id = 1 << CC_MECHANISM_INDEX_##id,
#include "mechanisms.def"
#undef CC_MECHANISM
    CC_ALL_MECHANISMS = (1 << CC_MECHANISM_COUNT) - 1,
    CC_BBR3_MECHANISMS = CC_PROBE_CAP | CC_CWND_CAP | CC_RANDOM_PROBE_RTT | CC_PATH_CHANGE /* bbr3-mix may have */
};

/* The mechanism that each tunable belongs to; a name that mechanisms.def does not have is a compile error. */
enum cc_mechanism_of {
#define CC_TUNABLE(name, symbol, kind, def, low, high, scale, mechanism, source)                                       \
    CC_MECHANISM_OF_##name = CC_##mechanism,
#include "tunables.def"
#undef CC_TUNABLE
};

/* The facts of the stack's algorithm (stack.def): the two values of a choice, and a bit for each fact. */
#define CC_FLAG(name, ...)
#define CC_CHOICE(name, zero, one, ...) enum cc_value_##name{ CC_VALUE_##name##_##zero, CC_VALUE_##name##_##one };
#include "stack.def"
#undef CC_FLAG
#undef CC_CHOICE

/* A fact's number: that of its bit in cc_params.stack. */
enum cc_stack {
#define CC_FLAG(name, ...) CC_STACK_##name,
#define CC_CHOICE(name, ...) CC_STACK_##name,
#include "stack.def"
    CC_STACK_COUNT
};
#undef CC_FLAG
#undef CC_CHOICE

static inline uint64_t cc_stack_bit(enum cc_stack fact) { return UINT64_C(1) << fact; }

/* The preset linux-6, the default. */
static inline uint64_t cc_stack_linux_6(void)
{
    uint64_t stack = 0;

#define CC_FLAG(name, v6, ...) stack |= (uint64_t)(v6) << CC_STACK_##name;
#define CC_CHOICE(name, zero, one, v6, ...) stack |= (uint64_t)CC_VALUE_##name##_##v6 << CC_STACK_##name;
#include "stack.def"
#undef CC_FLAG
#undef CC_CHOICE
    return stack;
}

/* Each tunable is a field, except a switch, which is a bit of `mechanisms`. */
#define CC_FIELD_ratio(name) int64_t name##_q16;
#define CC_FIELD_us(name) int64_t name;
#define CC_FIELD_count(name) int64_t name;
#define CC_FIELD_mode(name) int64_t name;
#define CC_FIELD_switch(name)

struct cc_plugin;

struct cc_params {
    uint32_t algorithm;             /* enum cc_algorithm */
    uint32_t mechanisms;            /* bits of enum cc_mechanism */
    uint64_t stack;                 /* a bit for each of enum cc_stack; constant for a flow */
    const struct cc_plugin *plugin; /* of CC_ALGORITHM_PLUGIN and CC_ALGORITHM_PLUGIN_BBR */
#define CC_TUNABLE(name, symbol, kind, def, low, high, scale, mechanism, source) CC_FIELD_##kind(name)
#include "tunables.def"
#undef CC_TUNABLE
};

enum cc_variant {
#define CC_VARIANT(id, name, algorithm, mechanisms, exponent, source) CC_VARIANT_##id,
#include "variants.def"
#undef CC_VARIANT
    CC_VARIANT_COUNT
};

/* A decimal constant in Q16, rounded by the compiler: no floating point at run time. */
#define CC_Q16(x) ((int64_t)((x) * 65536.0 + ((x) < 0 ? -0.5 : 0.5)))

#define CC_DEFAULT_ratio(name, value) params->name##_q16 = CC_Q16(value);
#define CC_DEFAULT_us(name, value) params->name = (value);
#define CC_DEFAULT_count(name, value) params->name = (value);
#define CC_DEFAULT_mode(name, value) params->name = (value);
#define CC_DEFAULT_switch(name, value)

/* The preset of a variant on linux-6; an unknown one counts as BBR. */
static inline void cc_params_init(struct cc_params *params, enum cc_variant variant)
{
    params->algorithm = CC_ALGORITHM_BBR;
    params->mechanisms = 0;
    params->plugin = 0;
    params->stack = cc_stack_linux_6();
#define CC_TUNABLE(name, symbol, kind, def, low, high, scale, mechanism, source) CC_DEFAULT_##kind(name, def)
#include "tunables.def"
#undef CC_TUNABLE

    switch (variant) {
#define CC_VARIANT(id, name, algorithm_, mechanisms_, exponent, source)                                                \
    case CC_VARIANT_##id:                                                                                              \
        params->algorithm = (algorithm_);                                                                              \
        params->mechanisms = (mechanisms_);                                                                            \
        params->pg_gain_exponent_q16 = (exponent) * CC_Q16_ONE;                                                        \
        break;
#include "variants.def"
#undef CC_VARIANT
    case CC_VARIANT_COUNT: break;
    }
#define CC_PRESET(id, name, kind, value)                                                                               \
    if (variant == CC_VARIANT_##id) {                                                                                  \
        CC_DEFAULT_##kind(name, value)                                                                                 \
    }
#include "presets.def"
#undef CC_PRESET
}

static inline bool cc_has(const struct cc_params *params, enum cc_mechanism mechanism)
{
    return (params->mechanisms & (uint32_t)mechanism) != 0;
}

/* The algorithm at work: of switch the one that its tunable chooses. */
static inline uint32_t cc_chosen_algorithm(const struct cc_params *params)
{
    static const uint32_t arms[] = { CC_ALGORITHM_CUBIC, CC_ALGORITHM_RENO, CC_ALGORITHM_BBR, CC_ALGORITHM_BBR3 };

    return cc_has(params, CC_SWITCH) ? arms[params->switch_arm & 3] : params->algorithm;
}

static inline bool cc_stack_has(const struct cc_params *params, enum cc_stack fact)
{
    return (params->stack & cc_stack_bit(fact)) != 0;
}

#endif
