/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Nanoseconds of processor time of the choice at the end of a probe, and of any other interval of it (POLICY is the header),
 * of wild histories; see integer_portfolio.py.
 */
#define _POSIX_C_SOURCE 199309L
#include POLICY

#include <stdio.h>
#include <time.h>

#define CHOICES 300

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

int main(void)
{
    static struct policy_state state;
    uint64_t choice_ns = 0, interval_ns = 0, began_ns, spent_ns, random = 1;
    int64_t sum = 0;
    uint32_t choice, i, flow, field;

    for (choice = 0; choice < CHOICES; choice++) {
        policy_begin(&state);
        state.flows = POLICY_FLOWS;
        state.has_decided = true;
        for (i = 0; i < POLICY_PROBE; i++) {
            for (flow = 0; flow < POLICY_FLOWS; flow++)
                for (field = 0; field < POLICY_FIELD_COUNT; field++) {
                    random = random * 6364136223846793005u + 1442695040888963407u;
                    state.fields[flow][field] = (int64_t)(random >> 44);
                }
            began_ns = now_ns();
            policy_decide(&state);
            spent_ns = now_ns() - began_ns;
            if (i + 1 < POLICY_PROBE)
                interval_ns += spent_ns;
            else
                choice_ns += spent_ns;
        }
        sum += state.chosen;
    }
    printf("%.0f %.0f %lld\n", (double)choice_ns / CHOICES, (double)interval_ns / CHOICES / (POLICY_PROBE - 1), (long long)sum);
    return 0;
}
