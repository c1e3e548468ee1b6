// SPDX-License-Identifier: GPL-2.0-only
//
// The functions of libbpf that are used, found when they are first needed: a machine without libbpf has the rest of the
// package, and a static libbpf cannot be part of a module (Debian's is not position-independent). Their types are those
// of libbpf 1.0's ABI (libbpf.so.1), declared here, so that the package is built without libbpf's headers.
#ifndef BBRGYM_LINUX_BPF_LIBBPF_HPP
#define BBRGYM_LINUX_BPF_LIBBPF_HPP

#include <linux/bpf.h>

#include <cstdarg>
#include <cstddef>
#include <cstdint>

extern "C"
{
    struct bpf_link;
    struct bpf_map;
    struct bpf_object;
    struct bpf_program;
    struct ring_buffer;

    enum libbpf_print_level
    {
        LIBBPF_WARN,
        LIBBPF_INFO,
        LIBBPF_DEBUG
    };

    /** The beginning of the options, which tell libbpf how much of them there is. */
    struct bpf_object_open_opts
    {
        std::size_t sz;
        const char* object_name;
    };

    struct bpf_link_create_opts
    {
        std::size_t sz;
        uint32_t flags;
        const bpf_iter_link_info* iter_info;
        uint32_t iter_info_len;
        uint32_t target_btf_id;
    };
}

namespace bbrgym
{

struct Libbpf
{
    using Print = int(libbpf_print_level level, const char* format, std::va_list arguments);
    using TakeSample = int(void* context, void* data, std::size_t bytes);

#define BBRGYM_LIBBPF_FUNCTIONS(FUNCTION)                                                                              \
    FUNCTION(libbpf_set_print, Print*, Print*)                                                                         \
    FUNCTION(libbpf_minor_version, uint32_t)                                                                           \
    FUNCTION(bpf_object__open_mem, bpf_object*, const void*, std::size_t, const bpf_object_open_opts*)                 \
    FUNCTION(bpf_object__load, int, bpf_object*)                                                                       \
    FUNCTION(bpf_object__close, void, bpf_object*)                                                                     \
    FUNCTION(bpf_object__find_map_by_name, bpf_map*, const bpf_object*, const char*)                                   \
    FUNCTION(bpf_object__next_program, bpf_program*, const bpf_object*, bpf_program*)                                  \
    FUNCTION(bpf_program__name, const char*, const bpf_program*)                                                       \
    FUNCTION(bpf_program__set_autoload, int, bpf_program*, bool)                                                       \
    FUNCTION(bpf_program__fd, int, const bpf_program*)                                                                 \
    FUNCTION(bpf_map__fd, int, const bpf_map*)                                                                         \
    FUNCTION(bpf_map__set_map_flags, int, bpf_map*, uint32_t)                                                          \
    FUNCTION(bpf_map__set_max_entries, int, bpf_map*, uint32_t)                                                        \
    FUNCTION(bpf_map__initial_value, void*, const bpf_map*, std::size_t*)                                              \
    FUNCTION(bpf_map__value_size, uint32_t, const bpf_map*)                                                            \
    FUNCTION(bpf_map__set_initial_value, int, bpf_map*, const void*, std::size_t)                                      \
    FUNCTION(bpf_map__attach_struct_ops, bpf_link*, const bpf_map*)                                                    \
    FUNCTION(bpf_link__fd, int, const bpf_link*)                                                                       \
    FUNCTION(bpf_link__disconnect, void, bpf_link*)                                                                    \
    FUNCTION(bpf_link__destroy, int, bpf_link*)                                                                        \
    FUNCTION(bpf_link_create, int, int, int, bpf_attach_type, const bpf_link_create_opts*)                             \
    FUNCTION(bpf_map_create, int, bpf_map_type, const char*, uint32_t, uint32_t, uint32_t, const void*)                \
    FUNCTION(bpf_map_get_next_id, int, uint32_t, uint32_t*)                                                            \
    FUNCTION(bpf_map_get_fd_by_id, int, uint32_t)                                                                      \
    FUNCTION(bpf_obj_pin, int, int, const char*)                                                                       \
    FUNCTION(bpf_obj_get, int, const char*)                                                                            \
    FUNCTION(bpf_map_update_elem, int, int, const void*, const void*, uint64_t)                                        \
    FUNCTION(bpf_map_lookup_elem, int, int, const void*, void*)                                                        \
    FUNCTION(bpf_enable_stats, int, int)                                                                               \
    FUNCTION(bpf_obj_get_info_by_fd, int, int, void*, uint32_t*)                                                       \
    FUNCTION(ring_buffer__new, ring_buffer*, int, TakeSample*, void*, const void*)                                     \
    FUNCTION(ring_buffer__consume, int, ring_buffer*)                                                                  \
    FUNCTION(ring_buffer__free, void, ring_buffer*)
#define BBRGYM_MEMBER(name, result, ...) result (*name)(__VA_ARGS__);
    BBRGYM_LIBBPF_FUNCTIONS(BBRGYM_MEMBER)
#undef BBRGYM_MEMBER

    /** The library of this machine; throws CongestionControlError if there is none, or an older one than 1.0. */
    static const Libbpf& Get();
};

} // namespace bbrgym

#endif
