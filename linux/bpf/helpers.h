/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a BPF program says to its loader and to the kernel: sections, maps, the helpers used by their numbers in the
 * kernel's ABI (include/uapi/linux/bpf.h), and a hook's arguments. It needs no header but the compiler's own.
 */
#ifndef BBRGYM_LINUX_BPF_HELPERS_H
#define BBRGYM_LINUX_BPF_HELPERS_H

#include <stdbool.h>
#include <stdint.h>

#define SEC(name) __attribute__((section(name), used))
#define __noinline __attribute__((noinline))
#define __always_inline inline __attribute__((always_inline))

/* A map's property, which the loader reads from the type of a pointer. */
#define __uint(name, value) int (*name)[value]
#define __type(name, type) type *name

enum { BPF_MAP_TYPE_SK_STORAGE = 24, BPF_MAP_TYPE_RINGBUF = 27 };
enum { BPF_F_NO_PREALLOC = 1, BPF_SK_STORAGE_GET_F_CREATE = 1 };

static uint64_t (*const bpf_ktime_get_ns)(void) = (void *)5;
static uint64_t (*const bpf_get_socket_cookie)(void *sk) = (void *)46;
static long (*const bpf_setsockopt)(void *sk, int level, int option, void *value, int bytes) = (void *)49;
static long (*const bpf_getsockopt)(void *sk, int level, int option, void *value, int bytes) = (void *)57;
static void *(*const bpf_sk_storage_get)(void *map, void *sk, void *value, uint64_t flags) = (void *)107;
static long (*const bpf_sk_storage_delete)(void *map, void *sk) = (void *)108;
static uint64_t (*const bpf_jiffies64)(void) = (void *)118;
static long (*const bpf_probe_read_kernel)(void *to, uint32_t bytes, const void *from) = (void *)113;
static long (*const bpf_seq_write)(void *seq, const void *data, uint32_t bytes) = (void *)127;
static void *(*const bpf_ringbuf_reserve)(void *ringbuf, uint64_t bytes, uint64_t flags) = (void *)131;
static void (*const bpf_ringbuf_submit)(void *record, uint64_t flags) = (void *)132;
static void *(*const bpf_skc_to_tcp_sock)(void *sk) = (void *)137;

/*
 * A hook of the kernel's. Its arguments arrive as an array of 64-bit words; the body is a function of its own with
 * their types.
 */
#define HOOK_WORDS_1(a) (void *)words[0]
#define HOOK_WORDS_2(a, b) (void *)words[0], words[1]
#define HOOK_WORDS_4(a, b, c, d) (void *)words[0], words[1], words[2], (void *)words[3]
#define HOOK_PICK(a, b, c, d, name, ...) name
#define HOOK_WORDS(...) HOOK_PICK(__VA_ARGS__, HOOK_WORDS_4, , HOOK_WORDS_2, HOOK_WORDS_1, )(__VA_ARGS__)
#define BPF_HOOK(name, ...)                                                                                            \
    name(unsigned long long *words);                                                                                   \
    static __always_inline __typeof__(name(0)) name##_body(__VA_ARGS__);                                               \
    __typeof__(name(0)) name(unsigned long long *words) { return name##_body(HOOK_WORDS(__VA_ARGS__)); }               \
    static __always_inline __typeof__(name(0)) name##_body(__VA_ARGS__)

/*
 * A bit field of the kernel's, wherever it lies there: the loader puts the running kernel's numbers in, by
 * enum bpf_field_info_kind. Its place is hidden from the compiler, so that it is relocated once.
 */
#define FIELD_OFFSET_BYTES(pointer, field) __builtin_preserve_field_info((pointer)->field, 0)
#define FIELD_SIZE_BYTES(pointer, field) __builtin_preserve_field_info((pointer)->field, 1)
#define FIELD_BITS_LEFT(pointer, field) __builtin_preserve_field_info((pointer)->field, 4)
#define FIELD_BITS_RIGHT(pointer, field) __builtin_preserve_field_info((pointer)->field, 5)
#define READ_BITS(pointer, field)                                                                                      \
    ({                                                                                                                 \
        const void *place_of_field = (const void *)(pointer) + FIELD_OFFSET_BYTES(pointer, field);                     \
        uint64_t word_of_field;                                                                                        \
                                                                                                                       \
        __asm__ volatile("" : "=r"(place_of_field) : "0"(place_of_field));                                             \
        switch (FIELD_SIZE_BYTES(pointer, field)) {                                                                    \
        case 1: word_of_field = *(const uint8_t *)place_of_field; break;                                               \
        case 2: word_of_field = *(const uint16_t *)place_of_field; break;                                              \
        case 4: word_of_field = *(const uint32_t *)place_of_field; break;                                              \
        default: word_of_field = *(const uint64_t *)place_of_field;                                                    \
        }                                                                                                              \
        (word_of_field << FIELD_BITS_LEFT(pointer, field)) >> FIELD_BITS_RIGHT(pointer, field);                        \
    })

#endif
