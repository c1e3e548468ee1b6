// SPDX-License-Identifier: GPL-2.0-only
//
// A BPF object in the kernel, through libbpf: its programs and maps live as long as it does, unless they are pinned.
#ifndef BBRGYM_LINUX_BPF_OBJECT_HPP
#define BBRGYM_LINUX_BPF_OBJECT_HPP

#include "libbpf.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace bbrgym
{

class CongestionControlError : public std::runtime_error
{
    using std::runtime_error::runtime_error;
};

/** Frees what libbpf made. */
struct CloseBpf
{
    void operator()(bpf_object* object) const;
    void operator()(ring_buffer* ring) const;
};

using BpfObject = std::unique_ptr<bpf_object, CloseBpf>;

/** Throws CongestionControlError with an error number and what libbpf warned of. */
[[noreturn]] void Fail(const std::string& what, int error);

/** `result` of libbpf; negative with errno set: throws. */
int Require(const std::string& what, int result);

/** An object that is not in the kernel yet. Throws. */
BpfObject OpenObject(const std::string& bytes);

/** An object's map; null: it has none of this name. */
bpf_map* FindMap(const BpfObject& object, const char* name);

/** An object's map. Throws. */
bpf_map* Map(const BpfObject& object, const char* name);

/** The descriptor of a map in the kernel. Throws. */
int MapFd(const BpfObject& object, const char* name);

/** An object's program. Throws. */
bpf_program* Program(const BpfObject& object, const char* name);

/** The descriptor of a program in the kernel. Throws. */
int ProgramFd(const BpfObject& object, const char* name);

/** Takes the records that wait in an object's ring buffer, oldest first. */
template <typename Record> class RecordRing
{
  public:
    std::vector<Record> Take(const BpfObject& object, const char* map)
    {
        if (!m_ring)
        {
            m_ring.reset(Libbpf::Get().ring_buffer__new(MapFd(object, map), Keep, &m_taken, nullptr));
            Require("reading the records", m_ring ? 0 : -1);
        }
        Require("reading the records", Libbpf::Get().ring_buffer__consume(m_ring.get()));
        return std::exchange(m_taken, {});
    }

  private:
    static int Keep(void* records, void* data, std::size_t bytes)
    {
        Record record{};
        std::memcpy(&record, data, std::min(bytes, sizeof(record)));
        static_cast<std::vector<Record>*>(records)->push_back(record);
        return 0;
    }

    std::vector<Record> m_taken;
    std::unique_ptr<ring_buffer, CloseBpf> m_ring;
};

} // namespace bbrgym

#endif
