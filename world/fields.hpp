// SPDX-License-Identifier: GPL-2.0-only
//
// The tables of fields.def as structs of doubles, one member per field in the table's order, and as lists.
#ifndef BBRGYM_WORLD_FIELDS_HPP
#define BBRGYM_WORLD_FIELDS_HPP

#include <cstddef>
#include <cstring>
#include <limits>
#include <span>
#include <stdexcept>
#include <type_traits>

namespace bbrgym
{

struct Field
{
    const char* name;
    const char* unit;
    const char* visibility;
    const char* meaning;
};

// A field nobody sets stays NaN, which the tests of the worlds look for.
#define BBRGYM_MEMBER(name, unit, visibility, meaning) double name = std::numeric_limits<double>::quiet_NaN();
#define BBRGYM_FIELD(name, unit, visibility, meaning) {#name, unit, #visibility, meaning},

struct FlowStats
{
#define FLOW_STAT BBRGYM_MEMBER
#include "fields.def"
};

struct LinkStats
{
#define LINK_STAT BBRGYM_MEMBER
#include "fields.def"
};

struct FlowSummary
{
#define FLOW_SUMMARY BBRGYM_MEMBER
#include "fields.def"
};

struct LinkSummary
{
#define LINK_SUMMARY BBRGYM_MEMBER
#include "fields.def"
};

inline constexpr Field FLOW_STAT_FIELDS[] = {
#define FLOW_STAT BBRGYM_FIELD
#include "fields.def"
};

inline constexpr Field LINK_STAT_FIELDS[] = {
#define LINK_STAT BBRGYM_FIELD
#include "fields.def"
};

inline constexpr Field FLOW_SUMMARY_FIELDS[] = {
#define FLOW_SUMMARY BBRGYM_FIELD
#include "fields.def"
};

inline constexpr Field LINK_SUMMARY_FIELDS[] = {
#define LINK_SUMMARY BBRGYM_FIELD
#include "fields.def"
};

#undef BBRGYM_MEMBER
#undef BBRGYM_FIELD

static_assert(sizeof(FlowStats) == std::size(FLOW_STAT_FIELDS) * sizeof(double));
static_assert(sizeof(LinkStats) == std::size(LINK_STAT_FIELDS) * sizeof(double));
static_assert(sizeof(FlowSummary) == std::size(FLOW_SUMMARY_FIELDS) * sizeof(double));
static_assert(sizeof(LinkSummary) == std::size(LINK_SUMMARY_FIELDS) * sizeof(double));

/** Writes one of the structs above as row `index` of a row-major table. */
template <typename Row>
void
WriteRow(const Row& row, std::span<double> table, std::size_t index)
{
    static_assert(std::is_trivially_copyable_v<Row> && std::is_standard_layout_v<Row>);
    constexpr std::size_t width = sizeof(Row) / sizeof(double);
    if (table.size() < (index + 1) * width)
    {
        throw std::out_of_range("WriteRow: the table is smaller than its rows");
    }
    std::memcpy(table.data() + index * width, &row, sizeof(Row));
}

/** Row `index` of such a table as one of the structs above. */
template <typename Row>
Row
ReadRow(std::span<const double> table, std::size_t index)
{
    static_assert(std::is_trivially_copyable_v<Row> && std::is_standard_layout_v<Row>);
    constexpr std::size_t width = sizeof(Row) / sizeof(double);
    if (table.size() < (index + 1) * width)
    {
        throw std::out_of_range("ReadRow: the table is smaller than its rows");
    }
    Row row;
    std::memcpy(static_cast<void*>(&row), table.data() + index * width, sizeof(Row));
    return row;
}

} // namespace bbrgym

#endif
