/* SPDX-License-Identifier: GPL-2.0-only */
/* Nanoseconds of a decision of a policy (POLICY is its header), over wild measurements; see integer_policies.py. */
#define _POSIX_C_SOURCE 199309L
#include POLICY

#include <stdio.h>
#include <time.h>

#define DECISIONS 20000

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

int main(void)
{
    static struct policy_state state;
    uint64_t began_ns, random = 1;
    int64_t sum = 0;
    uint32_t decision, flow, field;

    for (field = 0; field < POLICY_TUNABLE_COUNT; field++)
        state.tunables[field] = 0;
    policy_begin(&state);
    state.flows = POLICY_FLOWS;
    began_ns = now_ns();
    for (decision = 0; decision < DECISIONS; decision++) {
        for (flow = 0; flow < POLICY_FLOWS; flow++)
            for (field = 0; field < POLICY_FIELD_COUNT; field++) {
                random = random * 6364136223846793005u + 1442695040888963407u;
                state.fields[flow][field] = (int64_t)(random >> 44);
            }
        policy_decide(&state);
        sum += state.tunables[0];
    }
    printf("%.0f %lld\n", (double)(now_ns() - began_ns) / DECISIONS, (long long)sum);
    return 0;
}
