/* SPDX-License-Identifier: GPL-2.0-only */
/* The addresses of a socket, and the options of sockets, for programs that tell user space of connections. */
#ifndef BBRGYM_LINUX_BPF_ADDRESSES_H
#define BBRGYM_LINUX_BPF_ADDRESSES_H

#include "kernel.h"

#define AF_INET 2
#define SOL_TCP 6
#define TCP_CONGESTION 13

/* In network order; of IPv4 the first 4 bytes. */
static __always_inline void read_addresses(const struct sock *sk, uint8_t local[16], uint8_t remote[16])
{
    if (sk->__sk_common.skc_family == AF_INET) {
        *(uint32_t *)local = sk->__sk_common.skc_rcv_saddr;
        *(uint32_t *)remote = sk->__sk_common.skc_daddr;
    } else {
        bpf_probe_read_kernel(local, 16, &sk->__sk_common.skc_v6_rcv_saddr);
        bpf_probe_read_kernel(remote, 16, &sk->__sk_common.skc_v6_daddr);
    }
}

#endif
