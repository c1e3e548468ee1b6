/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Runs a policy from its tables, see policy_types.h:
 *
 *   a network      fields -> features -> the last intervals -> layers -> positions -> tunables
 *   a portfolio    fields -> features -> intervals of the identification -> program -> layers -> one of some
 *                  settings, held; it may reselect by the last intervals and the setting that it holds
 *
 * Features, positions (of tunables in their ranges) and the network's numbers are Q16; a portfolio's features and the
 * numbers of its program are Q20. Weights have 16 bits and a power of two for each layer; sums
 * of 64 bits cannot overflow, and outputs saturate at 32 bits.
 */

/* ---- arithmetic ---- */

static inline int64_t policy_clamp(int64_t x, int64_t low, int64_t high) { return x < low ? low : x > high ? high : x; }

/* Value of a table at a step, and so far on the straight line to the next one. */
#define POLICY_ON_LINE(table, index, rest, digits)                                                                     \
    ((int64_t)(table)[index] +                                                                                         \
     ((((int64_t)(table)[(index) + 1] - (int64_t)(table)[index]) * (int64_t)(rest)) >> (digits)))

/* log2 in Q20 of 1 .. 2^62; of 0 it is 0 */
POLICY_ALONE int64_t policy_log2(uint64_t x)
{
    uint64_t left = x > 0 ? x : 1, exponent = 62;
    uint32_t width;

    for (width = 32; width > 0; width /= 2)
        if (left >> (63 - width) == 0) {
            left <<= width;
            exponent -= width;
        }
    return (int64_t)(exponent << 20) + POLICY_ON_LINE(policy_log2_table, (left >> 54) & 255, (left >> 38) & 65535, 16);
}

/* ---- observation ---- */

#if POLICY_MEMORIES > 0
#define POLICY_MAX_SUM (INT64_C(1) << 60)
#define POLICY_MAX_AVERAGED                                                                                            \
    (INT64_C(1) << 34) /* largest measurement in POLICY_EWMA, whose sum in Q16 thus fits 64 bits */

/* x * keep / 2^32, for x up to 2^60 */
static inline int64_t policy_kept(int64_t x, uint32_t keep)
{
    uint64_t low = ((uint64_t)x & UINT32_MAX) * keep, high = ((uint64_t)x >> 32) * keep;

    return (int64_t)(high + (low >> 32));
}

/* With so many digits behind the point, for which the sum has room. */
static inline int64_t policy_mean(int64_t sum, int64_t count, uint32_t digits)
{
    return count > 0 ? (int64_t)((((uint64_t)sum << (digits & 15)) + ((uint64_t)count >> 1)) / (uint64_t)count) : 0;
}

/*
 * Adds a value to the smallest one of the last two halves of a time: `sum` is that of this half, `weight` how many
 * intervals of it have passed. Returns the smallest.
 */
static inline int64_t policy_lowest(int64_t x, bool counts, uint32_t half, int64_t *sum, int64_t *weight,
                                    int64_t *former)
{
    int64_t value;

    if (counts) {
        *sum = *weight == 0 || x < *sum ? x : *sum;
        (*weight)++;
    }
    value = *weight == 0 || (*former >= 0 && *former < *sum) ? *former : *sum;
    if (*weight >= half) {
        *former = *sum;
        *weight = 0;
    }
    return value;
}

/* Adds the last interval to a number that is remembered of a flow, as envs/memory.py does. */
POLICY_ALONE int policy_remember(struct policy_state *state, uint32_t flow, uint32_t memory)
{
    const struct policy_memory *row;
    int64_t x, minus, sum, weight, most, value = 0;
    bool is_active, counts;

    if (!state || flow >= POLICY_FLOWS || memory >= POLICY_MEMORIES)
        return 0;
    row = &policy_memories[memory];
    is_active = state->fields[flow][POLICY_FIELD_active] > 0;
    counts = is_active && state->fields[flow][POLICY_FIELD_rtt_mean_us] > 0;
    x = policy_clamp(state->fields[flow][policy_inside(row->field, POLICY_FIELD_COUNT)], 0, POLICY_MAX_FIELD);
    if (row->minus < POLICY_FIELD_COUNT) {
        minus = policy_clamp(state->fields[flow][policy_inside(row->minus, POLICY_FIELD_COUNT)], 0, POLICY_MAX_FIELD);
        counts = counts && minus > 0;
        x = x > minus ? x - minus : 0;
    }
    sum = state->sums[flow][memory];
    weight = state->weights[flow][memory];
    most = POLICY_MAX_SUM >> (row->digits & 15);
    if (row->kind == POLICY_TOTAL || row->kind == POLICY_SECONDS) {
        if (row->kind == POLICY_SECONDS)
            x = x > 0 ? POLICY_INTERVAL_US : 0;
        sum = policy_clamp(sum + (is_active ? x : 0), 0, POLICY_MAX_SUM);
        value = sum;
    } else if (row->kind == POLICY_MAX || row->kind == POLICY_MIN) {
        if (counts && (weight == 0 || (row->kind == POLICY_MAX ? x > sum : x < sum)))
            sum = x;
        weight |= counts;
        value = sum;
    } else if (row->kind == POLICY_MEAN) {
        sum = policy_clamp(sum + (counts ? x : 0), 0, most);
        weight += counts;
        value = policy_mean(sum, weight, row->digits);
    } else if (row->kind == POLICY_LOW) {
        value = policy_lowest(x, counts, row->keep, &sum, &weight, &state->former[flow][memory]);
    } else if (row->kind == POLICY_HIGH) { /* Q16 */
        x <<= 16;
        if (counts)
            sum = x < sum ? x + policy_kept(sum - x, row->keep) : x;
        value = (sum + (1 << 15)) >> 16;
    } else {
        x = policy_clamp(x, 0, POLICY_MAX_AVERAGED >> (row->digits & 15));
        sum = policy_clamp(policy_kept(sum, row->keep) + (counts ? x << 16 : 0), 0, most);
        weight = policy_kept(weight, row->keep) + (counts ? INT64_C(1) << 32 : 0);
        value = policy_mean(sum, weight >> 16, row->digits);
    }
    state->sums[flow][memory] = sum;
    state->weights[flow][memory] = weight;
    state->remembered[flow][memory] = value;
    return 0;
}
#endif

/* A field; operands from POLICY_FIELD_COUNT on are what is remembered. */
static inline int64_t policy_operand(const struct policy_state *state, uint32_t flow, uint32_t operand)
{
    int64_t x;

#if POLICY_MEMORIES > 0
    if (operand >= POLICY_FIELD_COUNT)
        x = state->remembered[flow][policy_inside(operand - POLICY_FIELD_COUNT, POLICY_MEMORIES)];
    else
#endif
        x = state->fields[flow][policy_inside(operand, POLICY_FIELD_COUNT)];
    return policy_clamp(x, 0, POLICY_MAX_FIELD);
}

POLICY_ALONE int policy_find_feature(struct policy_state *state, uint32_t flow, uint32_t feature)
{
    const struct policy_feature *row;
    int64_t x, y, per = 1, found;

    if (!state || flow >= POLICY_FLOWS || feature >= POLICY_FEATURES)
        return 0;
    row = &policy_features[feature];
    x = policy_operand(state, flow, row->field);
    if (row->per < UINT32_MAX)
        per = policy_operand(state, flow, row->per);
    if (row->scale == POLICY_WITHIN) {
        state->features[flow][feature] = row->low <= x && x <= row->low + row->span ? 1 << POLICY_FEATURE_BITS : 0;
        return 0;
    }
    if (row->scale == POLICY_LOG)
        y = x > 0 && per > 0 ? policy_log2((uint64_t)x) - policy_log2((uint64_t)per) : row->low;
    else if (row->per < UINT32_MAX)
        y = per > 0 ? (int64_t)((((uint64_t)x << 16) + ((uint64_t)per >> 1)) / (uint64_t)per) : 0;
    else
        y = x;
    found = policy_clamp(y - row->low, 0, row->span) * row->factor;
    state->features[flow][feature] =
        (int32_t)((found + (INT64_C(1) << (55 - POLICY_FEATURE_BITS))) >> (56 - POLICY_FEATURE_BITS));
    return 0;
}

static inline void policy_find_features(struct policy_state *state)
{
    uint32_t flow, i;

    for (flow = 0; flow < POLICY_FLOWS; flow++) {
#if POLICY_MEMORIES > 0
        for (i = 0; i < POLICY_MEMORIES && flow < state->flows; i++)
            policy_remember(state, flow, i);
#endif
        for (i = 0; i < POLICY_FEATURES; i++)
            policy_find_feature(state, flow, i);
    }
}

/* ---- tunables ---- */

static inline int64_t policy_low_log2(const struct policy_tunable *row, int64_t low)
{
    return low > row->low ? policy_log2((uint64_t)low) : row->low_log2;
}

static inline int64_t policy_least(const struct policy_state *state, const struct policy_tunable *row)
{
    int64_t bound = row->least;

    if (row->not_below < POLICY_TUNABLE_COUNT)
        bound = state->tunables[policy_inside(row->not_below, POLICY_TUNABLE_COUNT)];
    return bound > row->low ? bound : row->low;
}

/* Finds the position of a tunable in its range. */
POLICY_ALONE int policy_find_position(struct policy_state *state, uint32_t tunable)
{
    const struct policy_tunable *row;
    int64_t low, value, low_log2;
    uint64_t above, span;

    if (!state || tunable >= POLICY_TUNABLE_COUNT)
        return 0;
    row = &policy_tunables[tunable];
    low = policy_least(state, row);
    value = policy_clamp(state->tunables[tunable], low, row->high);
    above = (uint64_t)(value - low);
    span = (uint64_t)(row->high - low);
    if (row->scale == POLICY_WHOLE) {
        state->positions[tunable] = (int32_t)(((2 * above + 1) << 15) / (span + 1));
        return 0;
    }
    if (row->scale == POLICY_LOG) {
        low_log2 = policy_low_log2(row, low);
        value = policy_log2((uint64_t)value);
        above = value > low_log2 ? (uint64_t)(value - low_log2) : 0;
        span = (uint64_t)(row->high_log2 - low_log2);
    }
    above = ((above << 16) + (span >> 1)) / (span > 0 ? span : 1);
    state->positions[tunable] = (int32_t)(above < POLICY_ONE ? above : POLICY_ONE);
    return 0;
}

#if POLICY_CHOICES > 0
/* Returns the number of the largest output, the first of equal ones. */
POLICY_ALONE uint32_t policy_best(const struct policy_state *state)
{
    uint32_t i, best = 0;
    int32_t most = -INT32_MAX;

    if (!state)
        return 0;
    for (i = 0; i < POLICY_CHOICES; i++)
        if (state->layers[0][i] > most) {
            most = state->layers[0][i];
            best = i;
        }
    return best;
}

/* Sets a row of policy_settings. */
POLICY_ALONE int policy_set(struct policy_state *state, uint32_t setting)
{
    uint32_t i, row;

    if (!state)
        return 0;
    row = policy_inside(setting, POLICY_SETTINGS);
    for (i = 0; i < POLICY_TUNABLE_COUNT; i++) {
        state->tunables[i] = policy_settings[row][i];
        state->positions[i] = policy_setting_positions[row][i];
    }
    return 0;
}
#else
/* 2^x as a whole number, for x in Q20 from 0 to below 32 */
POLICY_ALONE int64_t policy_exp2(uint64_t x)
{
    uint64_t power = (uint64_t)POLICY_ON_LINE(policy_exp2_table, (x >> 12) & 255, x & 4095, 12);

    return (int64_t)(((power << ((x >> 20) & 31)) + (1u << 29)) >> 30);
}

static inline bool policy_is_bounded(uint32_t tunable)
{
    return policy_tunables[tunable].not_below < POLICY_TUNABLE_COUNT ||
           policy_tunables[tunable].least > policy_tunables[tunable].low;
}

/* Sets a tunable by its position; that of a whole number moves to the middle of the number's share of the range. */
POLICY_ALONE int policy_set_tunable(struct policy_state *state, uint32_t tunable)
{
    const struct policy_tunable *row;
    int64_t low, position, low_log2;

    if (!state || tunable >= POLICY_TUNABLE_COUNT)
        return 0;
    row = &policy_tunables[tunable];
    low = policy_least(state, row);
    position = state->positions[tunable];
    if (row->scale == POLICY_WHOLE) {
        uint64_t count = (uint64_t)(row->high - row->low + 1),
                 nth = ((uint64_t)position * count + POLICY_ONE - 1) >> 16;

        nth = nth > 0 ? nth - 1 : 0;
        state->tunables[tunable] = row->low + (int64_t)nth;
        state->positions[tunable] = (int32_t)(((2 * nth + 1) << 15) / count);
    } else if (row->scale == POLICY_LOG) {
        low_log2 = policy_low_log2(row, low);
        low_log2 += ((row->high_log2 - low_log2) * position) >> 16;
        state->tunables[tunable] = policy_clamp(policy_exp2((uint64_t)low_log2), low, row->high);
    } else {
        state->tunables[tunable] = low + (((row->high - low) * position + POLICY_ONE / 2) >> 16);
    }
    return 0;
}

static inline void policy_set_tunables(struct policy_state *state)
{
    uint32_t pass, tunable;

    for (pass = 0; pass < 2; pass++) /* what bounds others comes first */
        for (tunable = 0; tunable < POLICY_TUNABLE_COUNT; tunable++)
            if (policy_is_bounded(tunable) == (pass == 1))
                policy_set_tunable(state, tunable);
}
#endif

/* A sum of products, of which so many digits are those of the weights. */
static inline int32_t policy_round(int64_t sum, int digits)
{
    return (int32_t)policy_clamp((sum + (INT64_C(1) << (digits - 1))) >> digits, -INT32_MAX, INT32_MAX);
}

/* ---- network ---- */

static inline int32_t policy_none(int32_t x) { return x; }
static inline int32_t policy_relu(int32_t x) { return x > 0 ? x : 0; }

#if POLICY_USES_TANH
/* Q16 both */
static inline int32_t policy_tanh(int32_t x)
{
    uint32_t size = x < 0 ? (uint32_t)-x : (uint32_t)x; /* x is never INT32_MIN */
    int32_t value;

    size = size < 8 * POLICY_ONE ? size : 8 * POLICY_ONE - 1;
    value = (int32_t)POLICY_ON_LINE(policy_tanh_table, (size >> 10) & 511, size & 1023, 10);
    return x < 0 ? -value : value;
}
#endif

/* One output is function((weights x + bias) / 2^digits). */
#define POLICY_DEFINE_LAYER(number, from, to, input_count, output_count, digits, function)                             \
    POLICY_ALONE int policy_neuron_##number(struct policy_state *state, uint32_t neuron)                               \
    {                                                                                                                  \
        int64_t sum;                                                                                                   \
        uint32_t i;                                                                                                    \
                                                                                                                       \
        if (!state || neuron >= (output_count))                                                                        \
            return 0;                                                                                                  \
        sum = policy_biases_##number[neuron];                                                                          \
        for (i = 0; i < (input_count); i++)                                                                            \
            sum += (int64_t)policy_weights_##number[neuron][i] * state->from[i];                                       \
        state->to[neuron] = policy_##function(policy_round(sum, digits));                                              \
        return 0;                                                                                                      \
    }                                                                                                                  \
    static inline void policy_layer_##number(struct policy_state *state)                                               \
    {                                                                                                                  \
        uint32_t neuron;                                                                                               \
                                                                                                                       \
        for (neuron = 0; neuron < (output_count); neuron++)                                                            \
            policy_neuron_##number(state, neuron);                                                                     \
    }
POLICY_LAYERS(POLICY_DEFINE_LAYER)

#define POLICY_RUN_LAYER(number, from, to, input_count, output_count, digits, function) policy_layer_##number(state);

/* Finds the outputs. */
static inline void policy_run_network(struct policy_state *state) { POLICY_LAYERS(POLICY_RUN_LAYER) }

#if POLICY_IDENTIFICATION == 0
/* ---- inputs ---- */

#if POLICY_IS_POOLED
/* Mean, minimum and maximum of a feature over the active flows, 0 without one. */
static inline void policy_pool(struct policy_state *state, uint32_t feature, int32_t *mean, int32_t *smallest,
                               int32_t *largest)
{
    uint32_t flow, count = 0;
    int64_t sum = 0;

    *smallest = 1 << POLICY_FEATURE_BITS;
    *largest = 0;
    for (flow = 0; flow < POLICY_FLOWS; flow++) {
        int32_t value = state->features[flow][feature];

        if (flow >= state->flows || state->fields[flow][POLICY_FIELD_active] <= 0)
            continue;
        count++;
        sum += value;
        *smallest = value < *smallest ? value : *smallest;
        *largest = value > *largest ? value : *largest;
    }
    *smallest = count > 0 ? *smallest : 0;
    *mean = count > 0 ? (int32_t)((uint64_t)(2 * sum + count) / (2 * (uint64_t)count)) : 0;
}

static inline void policy_view_flows(struct policy_state *state, int32_t *view)
{
    uint32_t feature, flow;
    uint64_t active = 0;

    for (feature = 0; feature < POLICY_FEATURES; feature++)
        policy_pool(state, feature, &view[feature], &view[POLICY_FEATURES + feature],
                    &view[2 * POLICY_FEATURES + feature]);
    for (flow = 0; flow < POLICY_FLOWS; flow++)
        active += flow < state->flows && state->fields[flow][POLICY_FIELD_active] > 0;
    view[3 * POLICY_FEATURES] = (int32_t)((active << POLICY_FEATURE_BITS) / POLICY_FLOWS);
}
#else
static inline void policy_view_flows(struct policy_state *state, int32_t *view)
{
    uint32_t flow, feature;

    for (flow = 0; flow < POLICY_FLOWS; flow++)
        for (feature = 0; feature < POLICY_FEATURES; feature++)
            view[flow * POLICY_FEATURES + feature] = flow < state->flows ? state->features[flow][feature] : 0;
}
#endif

/* Adds the last interval to the inputs; at the first decision it stands for the intervals before it too. */
POLICY_ALONE int policy_observe(struct policy_state *state)
{
    int32_t *view;
    uint32_t tunable, i;

    if (!state)
        return 0;
    policy_find_features(state);
    for (i = 0; i + POLICY_VIEW < POLICY_INPUTS; i++)
        state->inputs[i] = state->inputs[i + POLICY_VIEW];
    view = &state->inputs[POLICY_INPUTS - POLICY_VIEW];
    policy_view_flows(state, view);
    for (tunable = 0; tunable < POLICY_TUNABLE_COUNT; tunable++)
        view[POLICY_VIEW - POLICY_TUNABLE_COUNT + tunable] = state->positions[tunable];
    if (!state->has_decided)
        for (i = POLICY_INPUTS - POLICY_VIEW; i > 0; i--)
            state->inputs[i - 1] = state->inputs[i - 1 + POLICY_VIEW];
    return 0;
}

#if POLICY_CHOICES > 0
static inline void policy_apply_outputs(struct policy_state *state) { policy_set(state, policy_best(state)); }
#else
/* Moves the positions as the outputs ask, and sets the tunables there. */
POLICY_ALONE int policy_apply_outputs(struct policy_state *state)
{
    uint32_t tunable;

    if (!state)
        return 0;
    for (tunable = 0; tunable < POLICY_TUNABLE_COUNT; tunable++) {
        const struct policy_tunable *row = &policy_tunables[tunable];
        int64_t output = policy_clamp(state->layers[0][tunable], -POLICY_ONE, POLICY_ONE),
                position = state->positions[tunable];
        int64_t target = POLICY_IS_RELATIVE ? position + ((row->step * output) >> 16) : (output + POLICY_ONE + 1) >> 1;

        target = policy_clamp(target, position - row->limit, position + row->limit);
        state->positions[tunable] = (int32_t)policy_clamp(target, 0, POLICY_ONE);
    }
    policy_set_tunables(state);
    return 0;
}
#endif

/* Sets the tunables by the inputs. */
static inline void policy_act(struct policy_state *state)
{
    policy_run_network(state);
    policy_apply_outputs(state);
}

/* Takes an interval and, unless the last decision still holds, decides. */
static inline void policy_decide(struct policy_state *state)
{
    policy_observe(state);
    state->has_decided = true;
    if (state->ticks == 0)
        policy_act(state);
    state->ticks = state->ticks + 1 < POLICY_HOLD ? state->ticks + 1 : 0;
}

#else
/* ---- program of a portfolio ---- */

#define POLICY_OPERATION_INDEX(name) POLICY_OPERATION_##name,
enum policy_operation { POLICY_OPERATIONS(POLICY_OPERATION_INDEX) };

/* Returns a constant; operands behind these are numbers of the history, positions (if it reselects), and cells. */
static inline int64_t policy_number(const struct policy_state *state, uint32_t operand)
{
    if (operand < POLICY_CONSTANTS)
        return policy_constants[policy_inside(operand, POLICY_CONSTANTS)];
    operand -= POLICY_CONSTANTS;
    if (operand < POLICY_HISTORY)
        return state->history[policy_inside(operand, POLICY_HISTORY)];
    operand -= POLICY_HISTORY;
#if POLICY_RESELECTS
    if (operand < POLICY_TUNABLE_COUNT)
        return (int64_t)state->positions[policy_inside(operand, POLICY_TUNABLE_COUNT)] * 16;
    operand -= POLICY_TUNABLE_COUNT;
#endif
    return state->cells[policy_inside(operand, POLICY_CELLS)];
}

static inline int64_t policy_size(int64_t x) { return x < 0 ? -x : x; }

static inline int64_t policy_product(int64_t a, int64_t b)
{
    int64_t larger = policy_size(a) >= policy_size(b) ? a : b, smaller = policy_size(a) >= policy_size(b) ? b : a;

    smaller = policy_clamp(smaller, -(INT64_C(1) << 31), INT64_C(1) << 31);
    if (policy_size(larger) <= INT64_C(1) << 31)
        return (larger * smaller + (1 << 19)) >> 20;
    return ((larger >> 10) * smaller + (1 << 9)) >> 10;
}

static inline int64_t policy_quotient(int64_t a, int64_t b)
{
    uint64_t size = (uint64_t)policy_size(b), quotient;

    if (size == 0)
        return 0;
    quotient = (((uint64_t)policy_size(a) << 20) + (size >> 1)) / size;
    return (a < 0) != (b < 0) ? -(int64_t)quotient : (int64_t)quotient;
}

#define POLICY_LOG2_E_Q30 1549082005
#define POLICY_LN_2_Q30 744261118

/* e^x, Q20 both */
POLICY_ALONE int64_t policy_exp(int64_t x)
{
    int64_t power = ((policy_clamp(x, -(32 << 20), 32 << 20) * POLICY_LOG2_E_Q30) >> 30) + (20 << 20), found;
    uint32_t shift;

    if (power < 0)
        return 0;
    power = policy_clamp(power, 0, 41 << 20);
    shift = (uint32_t)(power >> 20);
    found = POLICY_ON_LINE(policy_exp2_table, (power >> 12) & 255, power & 4095, 12);
    if (shift > 30)
        return policy_clamp(found << ((shift - 30) & 15), 0, POLICY_MOST);
    shift = 30 - shift;
    return (found + ((INT64_C(1) << (shift & 31)) >> 1)) >> (shift & 31);
}

/* Natural logarithm, Q20 both. */
POLICY_ALONE int64_t policy_log(int64_t x)
{
    if (x <= 0)
        return -POLICY_MOST;
    return ((policy_log2((uint64_t)x) - (20 << 20)) * POLICY_LN_2_Q30 + (1 << 29)) >> 30;
}

/* A step has an operation, the cell of its result and three operands. */
POLICY_ALONE int policy_step_program(struct policy_state *state, uint32_t step)
{
    const uint16_t *row;
    int64_t a, b, x;

    if (!state || step >= POLICY_STEPS)
        return 0;
    row = policy_steps[step];
    a = policy_number(state, row[2]);
    b = policy_number(state, row[3]);
    switch (row[0]) {
    case POLICY_OPERATION_ADD: x = a + b; break;
    case POLICY_OPERATION_SUBTRACT: x = a - b; break;
    case POLICY_OPERATION_MULTIPLY: x = policy_product(a, b); break;
    case POLICY_OPERATION_DIVIDE: x = policy_quotient(a, b); break;
    case POLICY_OPERATION_SMALLER: x = a < b ? a : b; break;
    case POLICY_OPERATION_LARGER: x = a > b ? a : b; break;
    case POLICY_OPERATION_LESS: x = a < b ? 1 << 20 : 0; break;
    case POLICY_OPERATION_EXP: x = policy_exp(a); break;
    case POLICY_OPERATION_LOG: x = policy_log(a); break;
    case POLICY_OPERATION_SQRT: x = a > 0 ? policy_exp(policy_log(a) >> 1) : 0; break;
    default: x = a > 0 ? b : policy_number(state, row[4]); break; /* POLICY_OPERATION_CHOOSE */
    }
    state->cells[policy_inside(row[1], POLICY_CELLS)] = policy_clamp(x, -POLICY_MOST, POLICY_MOST);
    return 0;
}

static inline void policy_run_program(struct policy_state *state)
{
    uint32_t i;

    for (i = 0; i < POLICY_STEPS; i++)
        policy_step_program(state, i);
}

/* ---- choices of a portfolio ---- */

/* Makes a result of the program, Q20, an input of the network, Q16. */
POLICY_ALONE int policy_take_result(struct policy_state *state, uint32_t input)
{
    if (!state || input >= POLICY_INPUTS)
        return 0;
    state->inputs[input] = policy_round(policy_number(state, policy_results[input]), 4);
    return 0;
}

static inline void policy_take_results(struct policy_state *state)
{
    uint32_t i;

    for (i = 0; i < POLICY_INPUTS; i++)
        policy_take_result(state, i);
}

/* Finds what each setting promises by the results of the program. */
static inline void policy_predict(struct policy_state *state)
{
    policy_take_results(state);
    policy_run_network(state);
}

/* Chooses a setting by the history. */
static inline void policy_select(struct policy_state *state)
{
    policy_run_program(state);
    policy_predict(state);
    state->chosen = policy_best(state);
}

/* Forgets the oldest intervals of the history, as many as pass from a choice to the next one. */
static inline void policy_forget(struct policy_state *state)
{
    uint32_t at, forgotten = POLICY_PAUSE * POLICY_FLOWS * POLICY_FEATURES;

    for (at = 0; at + forgotten < POLICY_HISTORY; at++)
        state->history[at] = state->history[at + forgotten];
    state->observed = POLICY_IDENTIFICATION - POLICY_PAUSE;
}

/* Appends the last interval; true once the history is full. */
POLICY_ALONE int policy_observe(struct policy_state *state)
{
    uint32_t flow, feature, at;

    if (!state)
        return 0;
    policy_find_features(state);
    if (!state->has_decided || (!POLICY_RESELECTS && state->chosen < POLICY_CHOICES))
        return 0;
    if (state->observed == POLICY_IDENTIFICATION)
        policy_forget(state);
    for (flow = 0; flow < POLICY_FLOWS; flow++)
        for (feature = 0; feature < POLICY_FEATURES; feature++) {
            at = (state->observed * POLICY_FLOWS + flow) * POLICY_FEATURES + feature;
            state->history[policy_inside(at, POLICY_HISTORY)] =
                flow < state->flows ? state->features[flow][feature] : 0;
        }
    state->observed++;
    return state->observed == POLICY_IDENTIFICATION;
}

/* Takes an interval; selects a setting when the identification ends and, if it reselects, after every pause. */
static inline void policy_decide(struct policy_state *state)
{
    if (policy_observe(state))
        policy_select(state);
    policy_set(state, state->chosen);
    state->has_decided = true;
}
#endif

/* Begins with the current tunables. */
static inline void policy_begin(struct policy_state *state)
{
    uint32_t tunable;
#if POLICY_MEMORIES > 0
    uint32_t flow, memory;

    for (flow = 0; flow < POLICY_FLOWS; flow++)
        for (memory = 0; memory < POLICY_MEMORIES; memory++) {
            state->remembered[flow][memory] = state->sums[flow][memory] = state->weights[flow][memory] = 0;
            state->former[flow][memory] = -1;
        }
#endif
#if POLICY_IDENTIFICATION > 0
    state->observed = 0;
    state->chosen = POLICY_CHOICES; /* the row behind the choices: the setting of the identification */
#else
    state->ticks = 0;
#endif
    state->has_decided = false;
    for (tunable = 0; tunable < POLICY_TUNABLE_COUNT; tunable++)
        policy_find_position(state, tunable);
}

/* ---- the shared object ---- */

#ifdef BBRGYM_POLICY_ENTRY

/* As world/policy.cpp has it. */
#define BBRGYM_POLICY_FORMAT 2

struct bbrgym_policy_column {
    const char *name;
    int64_t per_unit; /* whole units in one of the world's */
};
struct bbrgym_policy {
    uint32_t format;
    uint32_t is_per_flow;
    uint64_t interval_us;
    uint64_t hold; /* intervals for which a decision holds */
    uint64_t state_bytes;
    uint32_t flows;
    uint32_t field_count;
    uint32_t tunable_count;
    const char *variant;
    const struct bbrgym_policy_column *fields;
    const struct bbrgym_policy_column *tunables;
    void (*begin)(void *state, const int64_t *tunables);
    void (*decide)(void *state, const int64_t *fields, uint32_t flows, int64_t *tunables);
};

static void policy_entry_begin(void *memory, const int64_t *tunables)
{
    struct policy_state *state = (struct policy_state *)memory;
    uint32_t i;

    for (i = 0; i < POLICY_TUNABLE_COUNT; i++)
        state->tunables[i] = tunables[i];
    policy_begin(state);
}

/* `fields` holds rows of so many flows. */
static void policy_entry_decide(void *memory, const int64_t *fields, uint32_t flows, int64_t *tunables)
{
    struct policy_state *state = (struct policy_state *)memory;
    uint32_t flow, i;

    state->flows = flows < POLICY_FLOWS ? flows : POLICY_FLOWS;
    for (flow = 0; flow < state->flows; flow++)
        for (i = 0; i < POLICY_FIELD_COUNT; i++)
            state->fields[flow][i] = fields[flow * POLICY_FIELD_COUNT + i];
    policy_decide(state);
    for (i = 0; i < POLICY_TUNABLE_COUNT; i++)
        tunables[i] = state->tunables[i];
}

#define POLICY_FIELD_COLUMN(name, source, per_unit) { source, per_unit },
static const struct bbrgym_policy_column policy_field_columns[] = { POLICY_FIELDS(POLICY_FIELD_COLUMN) };
#define POLICY_TUNABLE_COLUMN(name, kind, per_unit) { #name, per_unit },
static const struct bbrgym_policy_column policy_tunable_columns[] = { POLICY_TUNABLES(POLICY_TUNABLE_COLUMN) };

extern const struct bbrgym_policy bbrgym_policy;
__attribute__((visibility("default"))) const struct bbrgym_policy bbrgym_policy = {
    .format = BBRGYM_POLICY_FORMAT,
    .is_per_flow = POLICY_IS_PER_FLOW,
    .interval_us = POLICY_INTERVAL_US,
    .hold = POLICY_HOLD,
    .state_bytes = sizeof(struct policy_state),
    .flows = POLICY_FLOWS,
    .field_count = POLICY_FIELD_COUNT,
    .tunable_count = POLICY_TUNABLE_COUNT,
    .variant = POLICY_VARIANT,
    .fields = policy_field_columns,
    .tunables = policy_tunable_columns,
    .begin = policy_entry_begin,
    .decide = policy_entry_decide,
};

#endif
