// SPDX-License-Identifier: GPL-2.0-only
#include "comparison.hpp"

#include <fcntl.h>

#ifdef BBRGYM_BPF_COMPILER
extern "C" const char bbrgym_compare_object[];
extern "C" const char bbrgym_compare_object_end[];
#endif

namespace bbrgym
{

namespace
{

std::string
CarriedObject()
{
#ifdef BBRGYM_BPF_COMPILER
    return {bbrgym_compare_object, bbrgym_compare_object_end};
#else
    throw CongestionControlError("the package was built without " BBRGYM_BPF_NEEDS);
#endif
}

} // namespace

Comparison::Comparison(const bpf_comparison& request, const std::string& cgroup) : m_object(OpenObject(CarriedObject()))
{
    const Libbpf& libbpf = Libbpf::Get();
    const Descriptor place(
        Require("opening the cgroup " + cgroup, open(cgroup.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)));
    Require("setting what is compared",
            libbpf.bpf_map__set_initial_value(Map(m_object, ".data.request"), &request, sizeof(request)));
    Require("loading the BPF object", libbpf.bpf_object__load(m_object.get()));
    m_link = Descriptor(
        Require("attaching to the cgroup " + cgroup,
                libbpf.bpf_link_create(ProgramFd(m_object, "compare"), place.Get(), BPF_CGROUP_SOCK_OPS, nullptr)));
}

bpf_comparison_counts
Comparison::Counts() const
{
    constexpr uint32_t ONLY_KEY = 0;
    bpf_comparison_counts counts{};
    Require("reading the counts",
            Libbpf::Get().bpf_map_lookup_elem(MapFd(m_object, ".data.counts"), &ONLY_KEY, &counts));
    return counts;
}

} // namespace bbrgym
