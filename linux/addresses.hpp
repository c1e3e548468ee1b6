// SPDX-License-Identifier: GPL-2.0-only
//
// The addresses of the two hosts, in host order. Nobody outside the namespaces sees them. A flow is known by the
// port of its receiver.
#ifndef BBRGYM_LINUX_ADDRESSES_HPP
#define BBRGYM_LINUX_ADDRESSES_HPP

#include <cstdint>

namespace bbrgym
{

inline constexpr uint32_t SENDER = 0xC6120001;            // 198.18.0.1: the block for benchmarks (RFC 2544)
inline constexpr uint32_t RECEIVER = 0xC6120002;          // 198.18.0.2
inline constexpr uint32_t RECEIVER_WITH_ECN = 0xC6120003; // 198.18.0.3: the senders' route to it asks for ECN
inline constexpr uint8_t PREFIX_BITS = 24;
inline constexpr uint16_t FIRST_PORT = 10'000; // below those that the kernel chooses for senders

} // namespace bbrgym

#endif
