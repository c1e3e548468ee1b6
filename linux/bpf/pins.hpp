// SPDX-License-Identifier: GPL-2.0-only
//
// What outlives this process: objects of the kernel's that are pinned as files of a BPF file system.
#ifndef BBRGYM_LINUX_BPF_PINS_HPP
#define BBRGYM_LINUX_BPF_PINS_HPP

#include <string>
#include <vector>

namespace bbrgym
{

/** Names the layout of what user space shares with programs of this build: those of another may not be read or written.
 */
std::string LayoutHash();

/** Pins an object of the kernel's. Throws CongestionControlError, as all of these. */
void Pin(int descriptor, const std::string& file);

/** Pins a new map with one value. */
void PinValue(const std::string& file, const std::string& value);

/** The only value of a pinned map. */
std::string ReadPinned(const std::string& file);

/** Writes the only value of a pinned map, which has as many bytes. */
void WritePinned(const std::string& file, const std::string& value);

/** The names of this package's controls that the kernel holds, one for each program, registered or still used by a
 * socket. */
std::vector<std::string> HeldControls();

/** What a pinned iterator writes, read in a network namespace; an empty name: in this process's. */
std::string ReadIterator(const std::string& file, const std::string& net_namespace);

} // namespace bbrgym

#endif
