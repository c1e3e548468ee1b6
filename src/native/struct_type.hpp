// SPDX-License-Identifier: GPL-2.0-only
//
// What the modules share: types of NumPy's structured arrays, and exceptions that are kept.
#ifndef BBRGYM_STRUCT_TYPE_HPP
#define BBRGYM_STRUCT_TYPE_HPP

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstddef>
#include <exception>

namespace bbrgym::binding
{

namespace py = pybind11;

/** The type of a struct, field by field. */
struct StructType
{
    py::list names, formats, offsets;

    void Add(const auto& name, const py::object& format, std::size_t offset)
    {
        names.append(name);
        formats.append(format);
        offsets.append(offset);
    }

    py::dtype Of(std::size_t bytes) const { return {names, formats, offsets, static_cast<py::ssize_t>(bytes)}; }
};

/** What an act throws; null: nothing. */
std::exception_ptr
Caught(const auto& act)
{
    try
    {
        act();
    }
    catch (...)
    {
        return std::current_exception();
    }
    return nullptr;
}

inline void
Rethrow(const std::exception_ptr& error)
{
    if (error)
    {
        std::rethrow_exception(error);
    }
}

} // namespace bbrgym::binding

#endif
