// SPDX-License-Identifier: GPL-2.0-only
#include "pins.hpp"

#include "congestion_control.hpp"
#include "libbpf.hpp"

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <future>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <linux/bpf.h>
#include <sched.h>
#include <unistd.h>

namespace bbrgym
{

namespace
{

constexpr uint32_t ONLY_KEY = 0;

int
Required(int result, const std::string& tried)
{
    if (result < 0)
    {
        throw CongestionControlError(tried + " failed: " + std::strerror(errno));
    }
    return result;
}

Descriptor
OpenPinned(const std::string& file)
{
    return Descriptor(Required(Libbpf::Get().bpf_obj_get(file.c_str()), "opening " + file));
}

std::size_t
ValueBytes(const Descriptor& map, const std::string& file)
{
    bpf_map_info info{};
    uint32_t bytes = sizeof(info);
    Required(Libbpf::Get().bpf_obj_get_info_by_fd(map.Get(), &info, &bytes), "asking about " + file);
    return info.value_size;
}

std::string
ReadAll(const std::string& file)
{
    const Descriptor stream(Required(open(file.c_str(), O_RDONLY | O_CLOEXEC), "opening " + file));
    std::string all;
    std::array<char, 1 << 16> part{};
    ssize_t bytes = 0;
    while ((bytes = Required(static_cast<int>(read(stream.Get(), part.data(), part.size())), "reading " + file)) > 0)
    {
        all.append(part.data(), static_cast<std::size_t>(bytes));
    }
    return all;
}

} // namespace

std::string
LayoutHash()
{
    return BBRGYM_BPF_LAYOUT;
}

void
Pin(int descriptor, const std::string& file)
{
    Required(Libbpf::Get().bpf_obj_pin(descriptor, file.c_str()), "pinning " + file);
}

void
PinValue(const std::string& file, const std::string& value)
{
    const Descriptor map(Required(Libbpf::Get().bpf_map_create(BPF_MAP_TYPE_ARRAY, "bbrgym_value", sizeof(ONLY_KEY),
                                                               static_cast<uint32_t>(value.size()), 1, nullptr),
                                  "making a map for " + file));
    Required(Libbpf::Get().bpf_map_update_elem(map.Get(), &ONLY_KEY, value.data(), BPF_ANY), "writing " + file);
    Pin(map.Get(), file);
}

std::string
ReadPinned(const std::string& file)
{
    const Descriptor map = OpenPinned(file);
    std::string value((ValueBytes(map, file) + 7) / 8 * 8, '\0'); // the kernel writes whole words
    Required(Libbpf::Get().bpf_map_lookup_elem(map.Get(), &ONLY_KEY, value.data()), "reading " + file);
    value.resize(ValueBytes(map, file));
    return value;
}

void
WritePinned(const std::string& file, const std::string& value)
{
    const Descriptor map = OpenPinned(file);
    if (ValueBytes(map, file) != value.size())
    {
        throw CongestionControlError(file + " has " + std::to_string(ValueBytes(map, file)) + " bytes, expected " +
                                     std::to_string(value.size()));
    }
    Required(Libbpf::Get().bpf_map_update_elem(map.Get(), &ONLY_KEY, value.data(), BPF_ANY), "writing " + file);
}

std::vector<std::string>
HeldControls()
{
    std::vector<std::string> names;
    for (uint32_t id = 0; Libbpf::Get().bpf_map_get_next_id(id, &id) == 0;)
    {
        const Descriptor map(Libbpf::Get().bpf_map_get_fd_by_id(id));
        bpf_map_info info{};
        uint32_t bytes = sizeof(info);
        if (!map || Libbpf::Get().bpf_obj_get_info_by_fd(map.Get(), &info, &bytes) != 0 || // it is gone
            info.type != BPF_MAP_TYPE_STRUCT_OPS || !std::string_view(info.name).starts_with("bbrgym_"))
        {
            continue;
        }
        std::string value(info.value_size, '\0');
        const bool is_there = Libbpf::Get().bpf_map_lookup_elem(map.Get(), &ONLY_KEY, value.data()) == 0;
        const std::size_t name =
            is_there ? value.find("gym_") : std::string::npos; // of a control's fields the only text
        if (name != std::string::npos && name > 0 && value[name - 1] == '\0')
        {
            names.emplace_back(value.c_str() + name);
        }
    }
    return names;
}

/** In a thread of its own, which alone enters the namespace and ends in it. */
std::string
ReadIterator(const std::string& file, const std::string& net_namespace)
{
    if (net_namespace.empty())
    {
        return ReadAll(file);
    }
    return std::async(std::launch::async,
                      [&] {
                          const Descriptor place(
                              Required(open(net_namespace.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC),
                                       "opening " + net_namespace));
                          Required(setns(place.Get(), CLONE_NEWNET), "entering " + net_namespace);
                          return ReadAll(file);
                      })
        .get();
}

} // namespace bbrgym
