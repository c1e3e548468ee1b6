// SPDX-License-Identifier: GPL-2.0-only
//
// The stack of a flow's sender: the facts of its algorithm (cc/stack.def) and of its sockets (world/socket.def), the
// presets that give each fact a value, and the table of all facts.
#ifndef BBRGYM_WORLD_STACK_HPP
#define BBRGYM_WORLD_STACK_HPP

extern "C"
{
#include "cc.h"
}

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace bbrgym
{

/** The presets, in the order of the columns of both tables. */
enum class StackPreset
{
    LINUX_6,
    LINUX_5_10,
    LINUX_4_17,
    LINUX_4_11,
    LINUX_4_9,
    NS3,
    NS3_3_28
};

inline constexpr std::array STACK_PRESETS = {std::string_view("linux-6"),    std::string_view("linux-5.10"),
                                             std::string_view("linux-4.17"), std::string_view("linux-4.11"),
                                             std::string_view("linux-4.9"),  std::string_view("ns3"),
                                             std::string_view("ns3-3.28")};

// clang-format off
#define TCP_CHOICE_LIST(...) __VA_ARGS__
#define TCP_FLAG(...)
#define TCP_NUMBER(...)
#define TCP_SIZE(...)
#define TCP_CHOICE(name, choices, v6, v5_10, v4_17, v4_11, v4_9, ns3, v3_28, meaning, source)                 \
    enum class name##_choice { TCP_CHOICE_LIST choices };
#include "socket.def"
#undef TCP_FLAG
#undef TCP_NUMBER
#undef TCP_SIZE
#undef TCP_CHOICE

/** The names of a size, as the table counts them. */
enum size_name : int64_t
{
    SIZE_ample = 0, ///< BufferBytes() of the scenario
    SIZE_auto = -1  ///< Linux's autotuning
};

/** The facts of a flow's sockets; the defaults are those of linux-6. */
struct SocketFacts
{
#define TCP_FLAG(name, v6, ...) bool name = v6;
#define TCP_NUMBER(name, unit, low, high, v6, ...) int64_t name = v6;
#define TCP_SIZE(name, names, unit, low, high, v6, ...) int64_t name = SIZE_##v6;
#define TCP_CHOICE(name, choices, v6, ...) name##_choice name = name##_choice::v6;
#include "socket.def"
#undef TCP_FLAG
#undef TCP_NUMBER
#undef TCP_SIZE
#undef TCP_CHOICE

    bool operator==(const SocketFacts&) const = default;
};
// clang-format on

/** The stack of one flow. */
struct Stack
{
    uint64_t algorithm = 0; ///< a bit for each of enum cc_stack
    SocketFacts socket;

    bool operator==(const Stack&) const = default;
};

enum class StackFactKind
{
    FLAG,
    CHOICE,
    NUMBER,
    SIZE
};

/** A row of one of the two tables. Values are 0 or 1 of a flag, an index of `choices`, a number, or of a size a
    number or the negated index of a name. */
struct StackFact
{
    std::string_view layer; ///< algorithm or socket
    std::string_view name;
    StackFactKind kind;
    std::vector<std::string> choices; ///< of a choice; the names of a size
    std::string_view unit;            ///< of a number or size
    int64_t low;
    int64_t high;
    std::array<int64_t, STACK_PRESETS.size()> values; ///< by preset
    std::string_view meaning;
    std::string_view source;
    void (*set)(Stack& stack, int64_t value);
    int64_t (*get)(const Stack& stack);
};

/** The rows of both tables, the algorithm's first. */
const std::vector<StackFact>& StackFacts();

/** A value of a fact as a scenario writes it, for errors. */
std::string FactText(const StackFact& fact, int64_t value);

/** Whether the receiver acts as ns-3's own does: each of its facts has the value of the preset ns3. */
bool HasNs3Receiver(const SocketFacts& facts);

/** The preset of a name; nothing if there is none. */
std::optional<StackPreset> FindStackPreset(std::string_view name);

/** Every fact as the preset has it. */
Stack StackOf(StackPreset preset);

} // namespace bbrgym

#endif
