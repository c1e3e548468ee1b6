/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Exact integer arithmetic that cannot overflow: results that do not fit saturate.
 *
 * A kernel has no 128-bit division, and BPF no product of more than 64 bits, so there both are made of 32-bit digits.
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

struct cc_u128 {
    uint64_t high;
    uint64_t low;
};

#if defined(__SIZEOF_INT128__) && !defined(__bpf__)
static inline struct cc_u128 cc_mul_wide(uint64_t a, uint64_t b)
{
    __extension__ unsigned __int128 wide = (unsigned __int128)a * b;
    struct cc_u128 product = { (uint64_t)(wide >> 64), (uint64_t)wide };

    return product;
}
#else
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
#endif

static inline uint64_t cc_mul_sat(uint64_t a, uint64_t b)
{
    struct cc_u128 product = cc_mul_wide(a, b);

    return product.high != 0 ? UINT64_MAX : product.low;
}

/* Digits to go from the top: 0 .. 63; x > 0. */
static inline uint32_t cc_leading_zeros(uint64_t x)
{
    uint32_t zeros = 0, width;

    for (width = 32; width > 0; width /= 2)
        if (x >> (64 - width) == 0) {
            zeros += width;
            x <<= width;
        }
    return zeros;
}

/*
 * floor((rest * 2^32 + next) / d), for rest < d, 2^63 <= d, next < 2^32. The quotient of the upper halves is at most
 * two too large (Knuth, volume 2, 4.3.1, algorithm D).
 */
static inline uint64_t cc_div_digit(uint64_t rest, uint64_t next, uint64_t d)
{
    uint64_t d_low = d & UINT32_MAX, d_high = d >> 32;
    uint64_t digit = rest / d_high, over = rest % d_high;
    int tries;

    for (tries = 0; tries < 2; tries++)
        if (over <= UINT32_MAX && (digit > UINT32_MAX || digit * d_low > (over << 32 | next))) {
            digit--;
            over += d_high;
        }
    return digit;
}

/* floor((high * 2^64 + low) / d), for high < d. Needed above roughly 10 Gbit/s times 1 s only. */
__attribute__((noinline, unused)) static uint64_t cc_div_long(uint64_t high, uint64_t low, uint64_t d)
{
    uint32_t shift = cc_leading_zeros(d);
    uint64_t upper, lower;

    d <<= shift;
    high = high << shift | low >> 1 >> (63 - shift);
    low <<= shift;
    upper = cc_div_digit(high, low >> 32, d);
    high = (high << 32 | low >> 32) - upper * d; /* the rest, below d: modulo 2^64 */
    lower = cc_div_digit(high, low & UINT32_MAX, d);
    return upper << 32 | lower;
}

/* floor((high * 2^64 + low) / d). Saturates if the quotient does not fit. d > 0. */
static inline uint64_t cc_div_wide(uint64_t high, uint64_t low, uint64_t d)
{
    if (high == 0)
        return low / d;
    return high >= d ? UINT64_MAX : cc_div_long(high, low, d);
}

/* floor(a * b / d); d > 0 */
CC_VERIFIED_ALONE uint64_t cc_mul_div(uint64_t a, uint64_t b, uint64_t d)
{
    struct cc_u128 product = cc_mul_wide(a, b);

    return cc_div_wide(product.high, product.low, d);
}

/* ceil(a * b / d); d > 0 */
CC_VERIFIED_ALONE uint64_t cc_mul_div_ceil(uint64_t a, uint64_t b, uint64_t d)
{
    struct cc_u128 product = cc_mul_wide(a, b);
    uint64_t quotient = cc_div_wide(product.high, product.low, d);

    return quotient * d != product.low ? cc_add_sat(quotient, 1) : quotient; /* modulo 2^64 */
}

/* x times a ratio in Q16; a negative ratio counts as 0. */
static inline uint64_t cc_scale(uint64_t x, int64_t ratio_q16)
{
    return ratio_q16 <= 0 ? 0 : cc_mul_div(x, (uint64_t)ratio_q16, CC_Q16_ONE);
}

/*
 * Largest r with r^3 <= x, bit by bit, from r = `root` = 0: an argument, because of a known one BPF's verifier follows
 * each of the 2^22 values.
 */
CC_VERIFIED_ALONE uint64_t cc_cube_root_from(uint64_t root, uint64_t x)
{
    int bit;

    for (bit = 21; bit >= 0; bit--) {
        uint64_t candidate = root | (UINT64_C(1) << bit);
        uint64_t cube = cc_mul_sat(candidate * candidate, candidate);

        if (cube <= x && cube != UINT64_MAX)
            root = candidate;
    }
    return root;
}

static inline uint64_t cc_cube_root(uint64_t x) { return cc_cube_root_from(0, x); }

#endif
