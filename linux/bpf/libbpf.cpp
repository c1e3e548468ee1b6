// SPDX-License-Identifier: GPL-2.0-only
#include "libbpf.hpp"

#include "congestion_control.hpp"

#include <dlfcn.h>

namespace bbrgym
{

namespace
{

constexpr const char* LIBRARY = "libbpf.so.1";

Libbpf
Find()
{
    void* library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL); // for the life of the process
    if (library == nullptr)
    {
        throw CongestionControlError(std::string("libbpf is missing (Debian: libbpf1): ") + dlerror());
    }
    const auto function = [library](const char* name) {
        void* found = dlsym(library, name);
        if (found == nullptr)
        {
            throw CongestionControlError(std::string(LIBRARY) + " has no " + name + ": version 1.0 or later is needed");
        }
        return found;
    };
    Libbpf functions{};
#define BBRGYM_FIND(name, ...) functions.name = reinterpret_cast<decltype(functions.name)>(function(#name));
    BBRGYM_LIBBPF_FUNCTIONS(BBRGYM_FIND)
#undef BBRGYM_FIND
    return functions;
}

} // namespace

const Libbpf&
Libbpf::Get()
{
    static const Libbpf functions = Find(); // tried again if it threw
    return functions;
}

} // namespace bbrgym
