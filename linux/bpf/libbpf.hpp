// SPDX-License-Identifier: GPL-2.0-only
//
// The functions of libbpf that are used, found when they are first needed: a machine without libbpf has the rest of the
// package, and a static libbpf cannot be part of a module (Debian's is not position-independent).
#ifndef BBRGYM_LINUX_BPF_LIBBPF_HPP
#define BBRGYM_LINUX_BPF_LIBBPF_HPP

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

namespace bbrgym
{

struct Libbpf
{
#define BBRGYM_LIBBPF_FUNCTIONS(FUNCTION)                                                                              \
    FUNCTION(libbpf_set_print)                                                                                         \
    FUNCTION(libbpf_minor_version)                                                                                     \
    FUNCTION(bpf_object__open_mem)                                                                                     \
    FUNCTION(bpf_object__load)                                                                                         \
    FUNCTION(bpf_object__close)                                                                                        \
    FUNCTION(bpf_object__find_map_by_name)                                                                             \
    FUNCTION(bpf_object__next_program)                                                                                 \
    FUNCTION(bpf_program__name)                                                                                        \
    FUNCTION(bpf_program__fd)                                                                                          \
    FUNCTION(bpf_map__fd)                                                                                              \
    FUNCTION(bpf_map__set_map_flags)                                                                                   \
    FUNCTION(bpf_map__set_max_entries)                                                                                 \
    FUNCTION(bpf_map__initial_value)                                                                                   \
    FUNCTION(bpf_map__value_size)                                                                                      \
    FUNCTION(bpf_map__set_initial_value)                                                                               \
    FUNCTION(bpf_map__attach_struct_ops)                                                                               \
    FUNCTION(bpf_link__fd)                                                                                             \
    FUNCTION(bpf_link__disconnect)                                                                                     \
    FUNCTION(bpf_link__destroy)                                                                                        \
    FUNCTION(bpf_link_create)                                                                                          \
    FUNCTION(bpf_map_update_elem)                                                                                      \
    FUNCTION(bpf_map_lookup_elem)                                                                                      \
    FUNCTION(bpf_enable_stats)                                                                                         \
    FUNCTION(bpf_obj_get_info_by_fd)                                                                                   \
    FUNCTION(ring_buffer__new)                                                                                         \
    FUNCTION(ring_buffer__consume)                                                                                     \
    FUNCTION(ring_buffer__free)
#define BBRGYM_MEMBER(name) decltype(&::name) name;
    BBRGYM_LIBBPF_FUNCTIONS(BBRGYM_MEMBER)
#undef BBRGYM_MEMBER

    /** The library of this machine; throws CongestionControlError if there is none, or an older one than 1.0. */
    static const Libbpf& Get();
};

} // namespace bbrgym

#endif
