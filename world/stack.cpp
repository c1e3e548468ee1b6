// SPDX-License-Identifier: GPL-2.0-only
#include "stack.hpp"

#include <algorithm>

namespace bbrgym
{

namespace
{

static_assert(CC_STACK_COUNT < 64, "cc_params.stack has a bit for each fact");

/** The names in "a, b, c", as the preprocessor prints a list. */
[[maybe_unused]] std::vector<std::string>
Split(std::string_view list)
{
    std::vector<std::string> names;
    while (!list.empty())
    {
        const std::size_t comma = std::min(list.find(','), list.size());
        names.emplace_back(list.substr(0, comma));
        list.remove_prefix(std::min(comma + 2, list.size()));
    }
    return names;
}

void
SetFact(Stack& stack, cc_stack fact, bool value)
{
    const uint64_t bit = cc_stack_bit(fact);
    stack.algorithm = value ? stack.algorithm | bit : stack.algorithm & ~bit;
}

int64_t
HasFact(const Stack& stack, cc_stack fact)
{
    return (stack.algorithm & cc_stack_bit(fact)) != 0;
}

} // namespace

// clang-format off
const std::vector<StackFact>&
StackFacts()
{
    static const std::vector<StackFact> facts = {
#define CC_FLAG(name, v6, v5_10, v4_17, v4_11, v4_9, ns3, v3_28, meaning, source)                             \
    {"algorithm", #name, StackFactKind::FLAG, {}, "", 0, 1, {v6, v5_10, v4_17, v4_11, v4_9, ns3, v3_28},      \
     meaning, source, [](Stack& s, int64_t value) { SetFact(s, CC_STACK_##name, value != 0); },                      \
     [](const Stack& s) { return HasFact(s, CC_STACK_##name); }},
#define CC_CHOICE(name, zero, one, v6, v5_10, v4_17, v4_11, v4_9, ns3, v3_28, meaning, source)                \
    {"algorithm", #name, StackFactKind::CHOICE, {#zero, #one}, "", 0, 1,                               \
     {CC_VALUE_##name##_##v6, CC_VALUE_##name##_##v5_10, CC_VALUE_##name##_##v4_17,                    \
      CC_VALUE_##name##_##v4_11, CC_VALUE_##name##_##v4_9, CC_VALUE_##name##_##ns3,                    \
      CC_VALUE_##name##_##v3_28},                                                                      \
     meaning, source, [](Stack& s, int64_t value) { SetFact(s, CC_STACK_##name, value != 0); },                      \
     [](const Stack& s) { return HasFact(s, CC_STACK_##name); }},
#include "../cc/stack.def"
#undef CC_FLAG
#undef CC_CHOICE
#define TCP_TEXT(...) #__VA_ARGS__
#define TCP_FLAG(name, v6, v5_10, v4_17, v4_11, v4_9, ns3, v3_28, meaning, source)                            \
    {"socket", #name, StackFactKind::FLAG, {}, "", 0, 1, {v6, v5_10, v4_17, v4_11, v4_9, ns3, v3_28},         \
     meaning, source, [](Stack& s, int64_t value) { s.socket.name = value != 0; },                           \
     [](const Stack& s) { return int64_t{s.socket.name}; }},
#define TCP_NUMBER(name, unit, low, high, v6, v5_10, v4_17, v4_11, v4_9, ns3, v3_28, meaning, source)         \
    {"socket", #name, StackFactKind::NUMBER, {}, unit, low, high,                                      \
     {v6, v5_10, v4_17, v4_11, v4_9, ns3, v3_28},                                                             \
     meaning, source, [](Stack& s, int64_t value) { s.socket.name = value; },                                \
     [](const Stack& s) { return s.socket.name; }},
#define TCP_SIZE(name, names, unit, low, high, v6, v5_10, v4_17, v4_11, v4_9, ns3, v3_28, meaning, source)    \
    {"socket", #name, StackFactKind::SIZE, Split(TCP_TEXT names), unit, low, high,                      \
     {SIZE_##v6, SIZE_##v5_10, SIZE_##v4_17, SIZE_##v4_11, SIZE_##v4_9, SIZE_##ns3,                     \
      SIZE_##v3_28},                                                                                   \
     meaning, source, [](Stack& s, int64_t value) { s.socket.name = value; },                                \
     [](const Stack& s) { return s.socket.name; }},
#define TCP_CHOICE(name, choices, v6, v5_10, v4_17, v4_11, v4_9, ns3, v3_28, meaning, source)                 \
    {"socket", #name, StackFactKind::CHOICE, Split(TCP_TEXT choices), "", 0, 0,                        \
     {int64_t(name##_choice::v6), int64_t(name##_choice::v5_10), int64_t(name##_choice::v4_17),        \
      int64_t(name##_choice::v4_11), int64_t(name##_choice::v4_9), int64_t(name##_choice::ns3),        \
      int64_t(name##_choice::v3_28)},                                                                  \
     meaning, source, [](Stack& s, int64_t value) { s.socket.name = static_cast<name##_choice>(value); },  \
     [](const Stack& s) { return static_cast<int64_t>(s.socket.name); }},
#include "socket.def"
#undef TCP_FLAG
#undef TCP_NUMBER
#undef TCP_SIZE
#undef TCP_CHOICE
    };
    return facts;
}
// clang-format on

std::string
FactText(const StackFact& fact, int64_t value)
{
    switch (fact.kind)
    {
    case StackFactKind::FLAG: return value != 0 ? "true" : "false";
    case StackFactKind::CHOICE: return "'" + fact.choices[static_cast<std::size_t>(value)] + "'";
    case StackFactKind::SIZE:
        if (value <= 0)
        {
            return "'" + fact.choices[static_cast<std::size_t>(-value)] + "'";
        }
        break;
    case StackFactKind::NUMBER: break;
    }
    return std::to_string(value);
}

bool
HasNs3Receiver(const SocketFacts& facts)
{
    const SocketFacts& ns3 = StackOf(StackPreset::NS3).socket;
    return facts.d_sack == ns3.d_sack && facts.quick_acks == ns3.quick_acks && facts.ecn_precise == ns3.ecn_precise &&
           facts.receive_buffer_bytes == ns3.receive_buffer_bytes &&
           facts.window_growth_acks == ns3.window_growth_acks &&
           facts.adaptive_delayed_acks == ns3.adaptive_delayed_acks && facts.compressed_acks == ns3.compressed_acks &&
           facts.delayed_ack_segments == ns3.delayed_ack_segments && facts.delayed_ack_ms == ns3.delayed_ack_ms;
}

std::optional<StackPreset>
FindStackPreset(std::string_view name)
{
    const auto found = std::ranges::find(STACK_PRESETS, name);
    if (found == STACK_PRESETS.end())
    {
        return std::nullopt;
    }
    return static_cast<StackPreset>(found - STACK_PRESETS.begin());
}

Stack
StackOf(StackPreset preset)
{
    Stack stack;
    for (const StackFact& fact : StackFacts())
    {
        fact.set(stack, fact.values[static_cast<std::size_t>(preset)]);
    }
    return stack;
}

} // namespace bbrgym
