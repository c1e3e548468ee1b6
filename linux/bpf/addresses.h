/* SPDX-License-Identifier: GPL-2.0-only */
/* The addresses of a socket, and the options of sockets, for programs that tell user space of connections. */
#ifndef BBRGYM_LINUX_BPF_ADDRESSES_H
#define BBRGYM_LINUX_BPF_ADDRESSES_H

#include "kernel.h"

#define AF_INET 2
#define TCP_CLOSE 7
#define SOL_TCP 6
#define TCP_CONGESTION 13

/* An address of a socket's, in network order; of IPv4 the first 4 bytes. */
static __always_inline void read_address(uint8_t to[16], uint32_t family, uint32_t v4, const struct in6_addr *v6)
{
    if (family == AF_INET)
        *(uint32_t *)to = v4;
    else
        bpf_probe_read_kernel(to, 16, v6);
}

#endif
