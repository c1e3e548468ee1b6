/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Windowed maximum from three samples (Kathleen Nichols; Linux lib/win_minmax.c, of bbr_update_bw).
 *
 *   best >= second >= third, each the best since the one before it. A new maximum replaces all three; when the
 *   best leaves the window the others move up; a quarter and half of the window without a new second or third
 *   make room for one.
 */
#ifndef BBRGYM_CC_MAX_FILTER_H
#define BBRGYM_CC_MAX_FILTER_H

#include "types.h"

struct cc_max_entry {
    uint64_t time;
    uint64_t value;
};

struct cc_max_filter {
    struct cc_max_entry best[3];
};

static inline uint64_t cc_max_filter_get(const struct cc_max_filter *filter) { return filter->best[0].value; }

static inline void cc_max_filter_reset(struct cc_max_filter *filter, uint64_t time, uint64_t value)
{
    struct cc_max_entry entry = { time, value };

    filter->best[0] = filter->best[1] = filter->best[2] = entry;
}

/* Feeds `value` at `time` (never before an earlier one); returns the maximum over the last `window`. */
static inline uint64_t cc_max_filter_update(struct cc_max_filter *filter, uint64_t time, uint64_t window,
                                            uint64_t value)
{
    struct cc_max_entry entry = { time, value };
    struct cc_max_entry *best = filter->best;
    uint64_t age;

    if (value >= best[0].value || time - best[2].time > window) {
        cc_max_filter_reset(filter, time, value);
        return value;
    }
    if (value >= best[1].value)
        best[1] = best[2] = entry;
    else if (value >= best[2].value)
        best[2] = entry;

    age = time - best[0].time;
    if (age > window) {
        best[0] = best[1];
        best[1] = best[2];
        best[2] = entry;
        if (time - best[0].time > window) {
            best[0] = best[1];
            best[1] = best[2];
        }
    } else if (best[1].time == best[0].time && age > window / 4) {
        best[1] = best[2] = entry;
    } else if (best[2].time == best[1].time && age > window / 2) {
        best[2] = entry;
    }
    return best[0].value;
}

#endif
