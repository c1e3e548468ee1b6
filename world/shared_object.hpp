// SPDX-License-Identifier: GPL-2.0-only
//
// Looks at the headers of a shared object's file. The loader believes them: it hangs on a FIFO, and of a file that was
// cut off it maps what is not there, so that the process ends at the first look at it.
#ifndef BBRGYM_WORLD_SHARED_OBJECT_HPP
#define BBRGYM_WORLD_SHARED_OBJECT_HPP

#include <elf.h>

#include <string>
#include <vector>

namespace bbrgym
{

/**
 * The segments that a shared object's file has mapped. std::invalid_argument says why the file cannot be one: it is not
 * a file, not an ELF object of this machine, ends early, or its sections do not lie in its segments.
 */
std::vector<Elf64_Phdr> SegmentsOf(const std::string& path);

} // namespace bbrgym

#endif
