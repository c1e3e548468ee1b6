/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Runs a policy's header over what it reads: 64-bit numbers, first how many steps, then the tunables at the beginning, then
 * for each step the number of flows and POLICY_FLOWS rows of fields. Writes the tunables and parts of each step.
 */
#include POLICY

#include <stdio.h>
#include <stdlib.h>

static void take(void *to, size_t count)
{
    if (fread(to, sizeof(int64_t), count, stdin) != count)
        exit(2);
}

int main(void)
{
    static struct policy_state state;
    int64_t steps, flows, part;
    uint32_t i;

    take(&steps, 1);
    take(state.tunables, POLICY_TUNABLE_COUNT);
    policy_begin(&state);
    while (steps-- > 0) {
        take(&flows, 1);
        state.flows = (uint32_t)flows;
        take(state.fields, POLICY_FLOWS * POLICY_FIELD_COUNT);
        policy_decide(&state);
        fwrite(state.tunables, sizeof(int64_t), POLICY_TUNABLE_COUNT, stdout);
        for (i = 0; i < POLICY_TUNABLE_COUNT; i++) {
            part = state.parts[i];
            fwrite(&part, sizeof(part), 1, stdout);
        }
    }
    return 0;
}
