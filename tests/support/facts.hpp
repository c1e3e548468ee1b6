// SPDX-License-Identifier: GPL-2.0-only
//
// Tests of a program, TEST(name) { ... } each, which `main` runs by name. A broken check says where, and what it found.
#pragma once

#include "program.hpp"

#include <cmath>
#include <concepts>
#include <source_location>
#include <string>
#include <type_traits>
#include <vector>

/** Returns the tests of all sources of the program; TEST adds to them. */
inline std::vector<Experiment>&
Tests()
{
    static std::vector<Experiment> tests;
    return tests;
}

struct RegisteredTest
{
    RegisteredTest(const char* name, void (*run)()) { Tests().push_back({name, run}); }
};

#define TEST(name)                                                                                                     \
    static void name();                                                                                                \
    static const RegisteredTest registered_##name(#name, name);                                                        \
    static void name()

template <typename T>
std::string
Shown(const T& value)
{
    if constexpr (std::is_arithmetic_v<T>)
    {
        return std::to_string(value);
    }
    else if constexpr (std::is_convertible_v<T, std::string>)
    {
        return "'" + std::string(value) + "'";
    }
    else
    {
        std::string list;
        for (const auto& one : value)
        {
            list += (list.empty() ? "" : ", ") + Shown(one);
        }
        return "[" + list + "]";
    }
}

/** Ends the program with 1 unless `actual` is `expected`; `law`: why it should be, where that is not plain. */
template <typename T>
void
Equal(const T& actual, const std::type_identity_t<T>& expected, const char* law = "",
      const std::source_location& at = std::source_location::current())
{
    Require(actual == expected, std::string(at.file_name()) + ":" + std::to_string(at.line()) + ": " + Shown(actual) +
                                    " instead of " + Shown(expected) + " " + law);
}

/** As Equal, within a tolerance. */
inline void
Near(double actual, double expected, double tolerance, const char* law = "",
     const std::source_location& at = std::source_location::current())
{
    Require(std::abs(actual - expected) <= tolerance, std::string(at.file_name()) + ":" + std::to_string(at.line()) +
                                                          ": " + Shown(actual) + " instead of " + Shown(expected) +
                                                          " within " + Shown(tolerance) + " " + law);
}
