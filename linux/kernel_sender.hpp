// SPDX-License-Identifier: GPL-2.0-only
//
// A kernel's TCP sender as the measurement sees it: TCP_INFO, and of BBR TCP_CC_INFO.
#ifndef BBRGYM_LINUX_KERNEL_SENDER_HPP
#define BBRGYM_LINUX_KERNEL_SENDER_HPP

#include "measurement.hpp"

namespace bbrgym
{

/**
 * Its state now; all zero before its connection stands. Two fields are estimates. Linux tells no total of the packets
 * that it marked lost: it is what was sent again, and what is marked and waits. BBR tells its gains and not its phase:
 * all phases of ProbeBW that cruise are the first of them.
 */
SenderState ReadKernelSender(int socket);

} // namespace bbrgym

#endif
