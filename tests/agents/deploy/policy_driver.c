/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A policy (POLICY is its header) for tests: as a shared object with its functions and where the members of its state
 * are; and as a program that reads 64-bit numbers, first how many steps, then the tunables at the beginning, then for
 * each step the number of flows and POLICY_FLOWS rows of fields, and writes the tunables of each step.
 */
#define BBRGYM_POLICY_ENTRY
#include POLICY

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

struct member {
    const char *name;
    uint64_t begin;
    uint64_t bytes;
    uint64_t bytes_each;
};

#define MEMBER(name, element)                                                                                          \
    { #name, offsetof(struct policy_state, name), sizeof((struct policy_state *)0)->name,                              \
      sizeof((struct policy_state *)0)->element }

const struct member members[] = {
    MEMBER(fields, fields[0][0]),
    MEMBER(tunables, tunables[0]),
    MEMBER(flows, flows),
    MEMBER(positions, positions[0]),
    MEMBER(features, features[0][0]),
    MEMBER(layers, layers[0][0]),
#if POLICY_MEMORIES > 0
    MEMBER(remembered, remembered[0][0]),
#endif
#if POLICY_IDENTIFICATION > 0
    MEMBER(history, history[0]),
    MEMBER(observed, observed),
    MEMBER(chosen, chosen),
#else
    MEMBER(inputs, inputs[0]),
#endif
    { NULL, 0, 0, 0 },
};

const uint64_t state_bytes = sizeof(struct policy_state);

void begin(struct policy_state *state, const int64_t *tunables) { bbrgym_policy.begin(state, tunables); }

void decide(struct policy_state *state, const int64_t *fields, uint32_t flows, int64_t *tunables)
{
    bbrgym_policy.decide(state, fields, flows, tunables);
}

void find_features(struct policy_state *state) { policy_find_features(state); }

int64_t log_2(int64_t x) { return policy_log2((uint64_t)x); }

#if POLICY_CHOICES > 0
uint32_t best(const struct policy_state *state) { return policy_best(state); }
#endif

#if POLICY_IDENTIFICATION > 0
void run_program(struct policy_state *state) { policy_run_program(state); }

int64_t number(const struct policy_state *state, uint32_t operand) { return policy_number(state, operand); }

void predict(struct policy_state *state) { policy_predict(state); }
#else
void act(struct policy_state *state) { policy_act(state); }
#if POLICY_USES_TANH
int64_t tanh_q16(int64_t x) { return policy_tanh((int32_t)x); }
#endif
#if POLICY_CHOICES == 0
int64_t power_of_2(int64_t x) { return policy_exp2((uint64_t)x); }

void set_tunables(struct policy_state *state) { policy_set_tunables(state); }
#endif
#endif

static void take(void *to, size_t count)
{
    if (fread(to, sizeof(int64_t), count, stdin) != count)
        exit(2);
}

int main(void)
{
    static struct policy_state state;
    int64_t steps, flows;

    take(&steps, 1);
    take(state.tunables, POLICY_TUNABLE_COUNT);
    policy_begin(&state);
    while (steps-- > 0) {
        take(&flows, 1);
        state.flows = (uint32_t)flows;
        take(state.fields, POLICY_FLOWS * POLICY_FIELD_COUNT);
        policy_decide(&state);
        fwrite(state.tunables, sizeof(int64_t), POLICY_TUNABLE_COUNT, stdout);
    }
    return 0;
}
