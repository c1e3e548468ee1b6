/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Exact integer arithmetic that cannot overflow: results that do not fit saturate.
 *
 * A kernel has no 128-bit division, so a product of two 64-bit numbers that does not fit is divided bit by bit.
 * That happens only above roughly 10 Gbit/s times 1 s.
 */
#ifndef BBRGYM_CC_ARITH_H
#define BBRGYM_CC_ARITH_H

#include "types.h"

#define CC_Q16_ONE 65536

static inline uint64_t cc_min_u64(uint64_t a, uint64_t b) { return a < b ? a : b; }
static inline uint64_t cc_max_u64(uint64_t a, uint64_t b) { return a > b ? a : b; }
static inline uint32_t cc_min_u32(uint32_t a, uint32_t b) { return a < b ? a : b; }
static inline uint32_t cc_max_u32(uint32_t a, uint32_t b) { return a > b ? a : b; }

static inline uint32_t cc_clamp_to_u32(uint64_t x) { return x > UINT32_MAX ? UINT32_MAX : (uint32_t)x; }

static inline uint64_t cc_add_sat(uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }
static inline uint64_t cc_sub_sat(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

static inline uint64_t cc_mul_sat(uint64_t a, uint64_t b)
{
    return a != 0 && b > UINT64_MAX / a ? UINT64_MAX : a * b;
}

struct cc_u128 {
    uint64_t high;
    uint64_t low;
};

/* Schoolbook multiplication by 32-bit halves. */
static inline struct cc_u128 cc_mul_wide(uint64_t a, uint64_t b)
{
    uint64_t a_low = a & UINT32_MAX, a_high = a >> 32;
    uint64_t b_low = b & UINT32_MAX, b_high = b >> 32;
    uint64_t low = a_low * b_low;
    uint64_t middle = a_high * b_low + (low >> 32);
    uint64_t middle2 = a_low * b_high + (middle & UINT32_MAX);
    struct cc_u128 product;

    product.high = a_high * b_high + (middle >> 32) + (middle2 >> 32);
    product.low = (middle2 << 32) | (low & UINT32_MAX);
    return product;
}

/* floor(n / d); *remainder = n mod d. Saturates if the quotient does not fit. d > 0. */
static inline uint64_t cc_div_wide(struct cc_u128 n, uint64_t d, uint64_t *remainder)
{
    uint64_t rest = n.high, low = n.low;
    int bit;

    if (n.high == 0) {
        *remainder = low % d;
        return low / d;
    }
    if (n.high >= d) {
        *remainder = 0;
        return UINT64_MAX;
    }
    for (bit = 0; bit < 64; bit++) {
        bool carry = (rest >> 63) != 0;

        rest = (rest << 1) | (low >> 63);
        low <<= 1;
        if (carry || rest >= d) {
            rest -= d;
            low |= 1;
        }
    }
    *remainder = rest;
    return low;
}

/* floor(a * b / d); d > 0 */
static inline uint64_t cc_mul_div(uint64_t a, uint64_t b, uint64_t d)
{
    uint64_t remainder;

    return cc_div_wide(cc_mul_wide(a, b), d, &remainder);
}

/* ceil(a * b / d); d > 0 */
static inline uint64_t cc_mul_div_ceil(uint64_t a, uint64_t b, uint64_t d)
{
    uint64_t remainder;
    uint64_t quotient = cc_div_wide(cc_mul_wide(a, b), d, &remainder);

    return remainder != 0 ? cc_add_sat(quotient, 1) : quotient;
}

/* x times a ratio in Q16; a negative ratio counts as 0. */
static inline uint64_t cc_scale(uint64_t x, int64_t ratio_q16)
{
    return ratio_q16 <= 0 ? 0 : cc_mul_div(x, (uint64_t)ratio_q16, CC_Q16_ONE);
}

/* Largest r with r^3 <= x, bit by bit. */
static inline uint64_t cc_cube_root(uint64_t x)
{
    uint64_t root = 0;
    int bit;

    for (bit = 21; bit >= 0; bit--) {
        uint64_t candidate = root | (UINT64_C(1) << bit);
        uint64_t cube = cc_mul_sat(candidate * candidate, candidate);

        if (cube <= x && cube != UINT64_MAX)
            root = candidate;
    }
    return root;
}

#endif
