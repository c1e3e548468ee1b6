/* SPDX-License-Identifier: GPL-2.0-only */
/* Golden values: `check` says which is another, and `golden_exit` is 1 then. The states are set by hand. */
#include "cc.h"

#include <stdio.h>

#define MSS 1448
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static int golden_exit;

static void check(const char *name, unsigned long long value, unsigned long long expected)
{
    if (value != expected) {
        fprintf(stderr, "%s is %llu instead of %llu\n", name, value, expected);
        golden_exit = 1;
    }
}
