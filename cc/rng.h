/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Random numbers from named streams.
 *
 * A stream's seed is a hash of the run's seed and the stream's name (FNV-1a, then splitmix64's finaliser), so
 * streams do not depend on the order in which they are made. The generator is splitmix64 (Steele, Lea and
 * Flood, OOPSLA 2014): one word of state, copied by assignment.
 */
#ifndef BBRGYM_CC_RNG_H
#define BBRGYM_CC_RNG_H

#include "types.h"

struct cc_rng {
    uint64_t state;
};

static inline uint64_t cc_rng_mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Only the first 256 characters of the name count. */
static inline uint64_t cc_stream_seed(uint64_t run_seed, const char *name)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    int i;

    for (i = 0; i < 256 && name[i] != '\0'; i++) {
        hash ^= (uint8_t)name[i];
        hash *= UINT64_C(0x100000001b3);
    }
    return cc_rng_mix(hash ^ cc_rng_mix(run_seed + UINT64_C(0x9e3779b97f4a7c15)));
}

static inline struct cc_rng cc_rng_make(uint64_t run_seed, const char *name)
{
    struct cc_rng rng = { cc_stream_seed(run_seed, name) };

    return rng;
}

static inline uint64_t cc_rng_next(struct cc_rng *rng)
{
    rng->state += UINT64_C(0x9e3779b97f4a7c15);
    return cc_rng_mix(rng->state);
}

/* Uniform in 0 .. n-1, without modulo bias; n > 0. A draw is rejected with probability n / 2^64 at most. */
static inline uint64_t cc_rng_below(struct cc_rng *rng, uint64_t n)
{
    uint64_t limit = UINT64_MAX - UINT64_MAX % n;
    uint64_t draw = cc_rng_next(rng);
    int tries;

    for (tries = 0; draw >= limit && tries < 8; tries++)
        draw = cc_rng_next(rng);
    return draw % n;
}

/* Uniform in 0 .. 2^53 - 1: times 2^-53 it is a double in [0, 1). */
static inline uint64_t cc_rng_53(struct cc_rng *rng) { return cc_rng_next(rng) >> 11; }

#endif
