// SPDX-License-Identifier: GPL-2.0-only
#include "object.hpp"

#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdio>

namespace bbrgym
{

namespace
{

/** What libbpf warned of in this thread since it was last cleared: the reason of a failure. */
thread_local std::string g_warnings;

int
KeepWarning(libbpf_print_level level, const char* format, va_list arguments)
{
    if (level != LIBBPF_WARN)
    {
        return 0;
    }
    std::array<char, 512> line{};
    const int length = std::vsnprintf(line.data(), line.size(), format, arguments);
    g_warnings += line.data();
    return length;
}

} // namespace

void
CloseBpf::operator()(bpf_object* object) const
{
    Libbpf::Get().bpf_object__close(object);
}

void
CloseBpf::operator()(ring_buffer* ring) const
{
    Libbpf::Get().ring_buffer__free(ring);
}

void
Fail(const std::string& what, int error)
{
    throw CongestionControlError(what + " failed: " + std::strerror(error < 0 ? -error : error) +
                                 (g_warnings.empty() ? "" : " (" + g_warnings + ")"));
}

int
Require(const std::string& what, int result)
{
    if (result < 0)
    {
        Fail(what, errno);
    }
    return result;
}

BpfObject
OpenObject(const std::string& bytes)
{
    g_warnings.clear();
    Libbpf::Get().libbpf_set_print(KeepWarning);
    const bpf_object_open_opts options{.sz = sizeof(options), .object_name = "bbrgym"};
    BpfObject object(Libbpf::Get().bpf_object__open_mem(bytes.data(), bytes.size(), &options));
    Require("opening the BPF object", object ? 0 : -1);
    return object;
}

bpf_map*
FindMap(const BpfObject& object, const char* name)
{
    return Libbpf::Get().bpf_object__find_map_by_name(object.get(), name);
}

bpf_map*
Map(const BpfObject& object, const char* name)
{
    bpf_map* map = FindMap(object, name);
    if (map == nullptr)
    {
        throw CongestionControlError(std::string("the BPF object has no map ") + name);
    }
    return map;
}

int
MapFd(const BpfObject& object, const char* name)
{
    return Libbpf::Get().bpf_map__fd(Map(object, name));
}

bpf_program*
Program(const BpfObject& object, const char* name)
{
    bpf_program* program = nullptr;
    while ((program = Libbpf::Get().bpf_object__next_program(object.get(), program)) != nullptr)
    {
        if (std::strcmp(Libbpf::Get().bpf_program__name(program), name) == 0)
        {
            return program;
        }
    }
    throw CongestionControlError(std::string("the BPF object has no program ") + name);
}

int
ProgramFd(const BpfObject& object, const char* name)
{
    return Libbpf::Get().bpf_program__fd(Program(object, name));
}

} // namespace bbrgym
