// SPDX-License-Identifier: GPL-2.0-only
//
// A program at a cgroup that gives each new connection one of two congestion controls (compare.bpf.c). It is attached
// as long as its object lives: the kernel takes it off when its owner ends, however it ends. Connections keep what they
// have.
#ifndef BBRGYM_LINUX_BPF_COMPARISON_HPP
#define BBRGYM_LINUX_BPF_COMPARISON_HPP

#include "descriptor.hpp"
#include "object.hpp"

extern "C"
{
#include "compare.h"
}

#include <string>
#include <vector>

namespace bbrgym
{

class Comparison
{
  public:
    /** Attaches it to the folder of a cgroup of version 2. Throws CongestionControlError, as all of it. */
    Comparison(const bpf_comparison& request, const std::string& cgroup);
    Comparison(const Comparison&) = delete;
    Comparison& operator=(const Comparison&) = delete;

    /** Takes it off the cgroup; what ended before can still be taken. */
    void Detach() { m_link.Reset(); }

    /** Takes the rows of connections that ended, oldest first. */
    std::vector<bpf_compared> Take() { return m_rows.Take(m_object, "rows"); }

    /** Connections so far. */
    bpf_comparison_counts Counts() const;

  private:
    BpfObject m_object;
    Descriptor m_link;
    RecordRing<bpf_compared> m_rows;
};

} // namespace bbrgym

#endif
