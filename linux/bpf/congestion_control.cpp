// SPDX-License-Identifier: GPL-2.0-only
#include "congestion_control.hpp"

#include "descriptor.hpp"
#include "pins.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>

#include <fcntl.h>
#include <linux/bpf.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/random.h>
#include <sys/socket.h>

#ifdef BBRGYM_BPF_COMPILER
extern "C" const char bbrgym_bbr_object[];
extern "C" const char bbrgym_bbr_object_end[];
extern "C" const char bbrgym_bbr3_object[];
extern "C" const char bbrgym_bbr3_object_end[];
#endif

namespace bbrgym
{

namespace
{

constexpr std::string_view UNNAMED = "bbrgym_unnamed"; // in bbrgym.bpf.c
constexpr std::size_t PAGE_BYTES = 4096;               // of a ring buffer, a power of two of them
constexpr int READS = 100;                             // an event takes less than a read
// Linux 6.4, include/uapi/linux/bpf.h; headers may be older.
constexpr uint32_t F_LINK = 1U << 13;
constexpr int ATTACH_STRUCT_OPS = 44;

std::string
RandomName()
{
    uint32_t number = 0;
    if (getrandom(&number, sizeof(number), 0) != sizeof(number))
    {
        Fail("drawing a name", errno);
    }
    std::array<char, 16> name{};
    std::snprintf(name.data(), name.size(), "bbrgym_%08x", number);
    return name.data();
}

/** The hooks leave recovery to the algorithm, as BBR wants it; the kernel has loss-based ones of its own. */
void
RequireBbr(const bpf_flow_settings& settings)
{
    if (!cc_is_bbr(&settings.params))
    {
        throw CongestionControlError("algorithm = " + std::to_string(settings.params.algorithm) +
                                     ": in BPF there are those that pace, expected direct, bbr-scaled or a BBR");
    }
}

/** The bytes of the package's program for these settings; throws where the package was built without it. */
std::string
CarriedObject([[maybe_unused]] const bpf_flow_settings& settings)
{
#ifdef BBRGYM_BPF_COMPILER
    return cc_is_bbr3(&settings.params) ? std::string(bbrgym_bbr3_object, bbrgym_bbr3_object_end)
                                        : std::string(bbrgym_bbr_object, bbrgym_bbr_object_end);
#else
    throw CongestionControlError("the package was built without " BBRGYM_BPF_NEEDS);
#endif
}

/** The bytes of an object file. */
std::string
ObjectOf(const std::string& file)
{
    std::error_code error;
    std::ifstream stream;
    if (std::filesystem::is_regular_file(file, error)) // a FIFO would wait for a writer
    {
        stream.open(file, std::ios::binary);
    }
    if (!stream.is_open())
    {
        throw CongestionControlError("policy: cannot read the BPF object '" + file + "'");
    }
    return {std::istreambuf_iterator<char>(stream), {}};
}

/** The object with another name for what it registers: one of two, of which each has the name. */
std::string
ObjectNamed(std::string object, const std::string& name)
{
    std::string field = name;
    field.resize(std::max(name.size(), UNNAMED.size()) + 1, '\0'); // fits: it has 16 bytes
    int names = 0;
    for (auto at = object.find(UNNAMED); at != std::string::npos; at = object.find(UNNAMED, at + 1))
    {
        object.replace(at, field.size(), field);
        ++names;
    }
    if (names != 2)
    {
        throw CongestionControlError("the BPF object has the name " + std::string(UNNAMED) + " " +
                                     std::to_string(names) + " times, expected 2");
    }
    return object;
}

/** The variant whose tunables the program's policy sets; empty: it has none. */
std::string
VariantOfPolicy(const BpfObject& object)
{
    if (FindMap(object, "policy_of") == nullptr)
    {
        return "";
    }
    std::size_t bytes = 0;
    const auto* variant =
        static_cast<const char*>(Libbpf::Get().bpf_map__initial_value(Map(object, ".rodata.policy"), &bytes));
    return variant == nullptr ? "" : std::string(variant, strnlen(variant, bytes));
}

} // namespace

// ---- the object in the kernel ---------------------------------------------------------------------------

CongestionControl::CongestionControl(const bpf_flow_settings& defaults, std::size_t records, bool is_slow,
                                     const std::string& object, const std::string& name)
    : m_name(name.empty() ? RandomName() : name),
      m_map(is_slow ? "bbrgym_slow_ops" : "bbrgym_ops"),
      m_is_bbr3(cc_is_bbr3(&defaults.params))
{
    RequireBbr(defaults);
    m_object = OpenObject(ObjectNamed(object.empty() ? CarriedObject(defaults) : ObjectOf(object), m_name));
    CheckObject(object);
    Require("setting the defaults",
            Libbpf::Get().bpf_map__set_initial_value(Map(m_object, ".data.settings"), &defaults, sizeof(defaults)));
    const std::size_t bytes = std::bit_ceil(std::max(records * (sizeof(bpf_record) + 8), PAGE_BYTES));
    Require("sizing the records",
            Libbpf::Get().bpf_map__set_max_entries(Map(m_object, "records"), static_cast<uint32_t>(bytes)));
    for (const char* iterator : {"flows", "sockets"}) // a machine may refuse them alone
    {
        Require("choosing programs",
                Libbpf::Get().bpf_program__set_autoload(Program(m_object, iterator), !name.empty()));
    }
    Require("loading the BPF object", Libbpf::Get().bpf_object__load(m_object.get()));
    Register();
}

void
CongestionControl::CheckObject(const std::string& file) const
{
    bpf_map* policies = FindMap(m_object, "policy_of");
    const bool has_whole_policy =
        policies == nullptr || Libbpf::Get().bpf_map__value_size(policies) > 2 * sizeof(uint64_t);
    if (Libbpf::Get().bpf_map__value_size(Map(m_object, "settings_of")) != sizeof(bpf_flow_settings) ||
        !has_whole_policy)
    {
        throw CongestionControlError("the BPF object '" + file + "' is of another version of bbrgym: compile it again");
    }
    if ((FindMap(m_object, "flights_of") != nullptr) != m_is_bbr3)
    {
        throw CongestionControlError("the BPF object '" + file + "' has the other generation of BBR: compile it " +
                                     (m_is_bbr3 ? "with" : "without") + " -DBBRGYM_BBR3");
    }
    Require("asking for a link", Libbpf::Get().bpf_map__set_map_flags(Map(m_object, m_map), F_LINK));
}

/**
 * The link's descriptor is what keeps it registered. libbpf before 1.2 knows no such links: what it attaches is the
 * map's value alone, and the link is made here.
 */
void
CongestionControl::Register()
{
    bpf_link* prepared = Libbpf::Get().bpf_map__attach_struct_ops(Map(m_object, m_map));
    if (prepared == nullptr)
    {
        Fail("registering " + m_name, errno);
    }
    if (Libbpf::Get().libbpf_minor_version() >= 2)
    {
        m_link = Descriptor(fcntl(Libbpf::Get().bpf_link__fd(prepared), F_DUPFD_CLOEXEC, 0));
        const int error = errno;
        Libbpf::Get().bpf_link__destroy(prepared);
        if (!m_link)
        {
            Fail("keeping " + m_name + " registered", error);
        }
        return;
    }
    Libbpf::Get().bpf_link__disconnect(prepared);
    Libbpf::Get().bpf_link__destroy(prepared);
    m_link =
        Descriptor(Require("registering " + m_name,
                           Libbpf::Get().bpf_link_create(MapFd(m_object, m_map), 0,
                                                         static_cast<bpf_attach_type>(ATTACH_STRUCT_OPS), nullptr)));
}

void
CongestionControl::PinIterator(const char* name, const char* map, const std::string& file) const
{
    bpf_iter_link_info over{};
    bpf_link_create_opts options{
        .sz = sizeof(options), .flags = 0, .iter_info = nullptr, .iter_info_len = 0, .target_btf_id = 0};
    if (map != nullptr)
    {
        over.map.map_fd = static_cast<uint32_t>(MapFd(m_object, map));
        options.iter_info = &over;
        options.iter_info_len = sizeof(over);
    }
    const Descriptor link(
        Require(std::string("making the iterator ") + name,
                Libbpf::Get().bpf_link_create(ProgramFd(m_object, name), 0, BPF_TRACE_ITER, &options)));
    Pin(link.Get(), file);
}

void
CongestionControl::PinTo(const std::string& folder) const
{
    Pin(MapFd(m_object, ".data.settings"), folder + "/defaults");
    Pin(MapFd(m_object, ".data.move"), folder + "/move");
    PinIterator("flows", "flow_of", folder + "/flows");
    PinIterator("sockets", nullptr, folder + "/sockets");
    Pin(m_link.Get(), folder + "/link");
}

// ---- its sockets ----------------------------------------------------------------------------------------

std::string
CongestionControl::WhyNot(bool is_named)
{
    try
    {
        const CongestionControl trial(PresetSettings(CC_VARIANT_BBR), 0, false, "", is_named ? RandomName() : "");
        return "";
    }
    catch (const CongestionControlError& error)
    {
        return error.what();
    }
}

std::string
CongestionControl::Compiler()
{
#ifdef BBRGYM_BPF_COMPILER
    return BBRGYM_BPF_COMPILER;
#else
    return "";
#endif
}

void
CongestionControl::Attach(int socket, const bpf_flow_settings& settings)
{
    SetSettings(socket, settings);
    Require("giving a socket the congestion control " + m_name,
            setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, m_name.c_str(), static_cast<socklen_t>(m_name.size())));
}

void
CongestionControl::SetSettings(int socket, const bpf_flow_settings& settings)
{
    RequireBbr(settings);
    if (cc_is_bbr3(&settings.params) != m_is_bbr3)
    {
        throw CongestionControlError("algorithm = " + std::to_string(settings.params.algorithm) +
                                     ": the program has the other generation of BBR");
    }
    Require("setting a flow's parameters",
            Libbpf::Get().bpf_map_update_elem(MapFd(m_object, "settings_of"), &socket, &settings, BPF_ANY));
}

bpf_flow_settings
CongestionControl::Settings(int socket) const
{
    bpf_flow_settings settings{};
    Require("reading a flow's parameters",
            Libbpf::Get().bpf_map_lookup_elem(MapFd(m_object, "settings_of"), &socket, &settings));
    return settings;
}

std::string
CongestionControl::PolicyVariantOf(const std::string& object)
{
    return object.empty() ? "" : VariantOfPolicy(OpenObject(ObjectOf(object)));
}

std::string
CongestionControl::PolicyVariant() const
{
    return VariantOfPolicy(m_object);
}

std::optional<PolicyReport>
CongestionControl::ReadPolicy(int socket) const
{
    bpf_map* policies = FindMap(m_object, "policy_of");
    if (policies == nullptr)
    {
        return std::nullopt;
    }
    std::string bytes(Libbpf::Get().bpf_map__value_size(policies), '\0');
    if (Libbpf::Get().bpf_map_lookup_elem(Libbpf::Get().bpf_map__fd(policies), &socket, bytes.data()) != 0)
    {
        return std::nullopt;
    }
    PolicyReport report;
    std::memcpy(&report.decisions, bytes.data(), sizeof(report.decisions));
    std::memcpy(&report.decision_ns, bytes.data() + sizeof(report.decisions), sizeof(report.decision_ns));
    report.state = bytes.substr(sizeof(report.decisions) + sizeof(report.decision_ns));
    return report;
}

/**
 * A copy is whole if it was made between two in which no event was being processed, and no other began: `changes` is
 * even and the same.
 */
std::optional<bpf_flow>
CongestionControl::Read(int socket) const
{
    bpf_flow before{};
    bpf_flow flow{};
    bpf_flow after{};
    const auto copy = [&](bpf_flow& to) {
        return Libbpf::Get().bpf_map_lookup_elem(MapFd(m_object, "flow_of"), &socket, &to) == 0;
    };
    for (int read = 0; read < READS; ++read)
    {
        if (!copy(before) || !copy(flow) || !copy(after))
        {
            return std::nullopt;
        }
        if (before.changes == after.changes && before.changes % 2 == 0)
        {
            return flow;
        }
    }
    return std::nullopt;
}

std::vector<bpf_record>
CongestionControl::TakeRecords()
{
    return m_records.Take(m_object, "records");
}

void
CongestionControl::MeasureCost()
{
    m_statistics = Descriptor(Require("counting the cost", Libbpf::Get().bpf_enable_stats(BPF_STATS_RUN_TIME)));
}

std::vector<ProgramCost>
CongestionControl::Costs() const
{
    std::vector<ProgramCost> costs;
    bpf_program* program = nullptr;
    while ((program = Libbpf::Get().bpf_object__next_program(m_object.get(), program)) != nullptr)
    {
        const int descriptor = Libbpf::Get().bpf_program__fd(program);
        if (descriptor < 0) // an iterator that was not loaded
        {
            continue;
        }
        bpf_prog_info info{};
        uint32_t bytes = sizeof(info);
        Require("reading the cost", Libbpf::Get().bpf_obj_get_info_by_fd(descriptor, &info, &bytes));
        costs.push_back({.name = Libbpf::Get().bpf_program__name(program),
                         .instructions = static_cast<uint32_t>(info.xlated_prog_len / 8),
                         .verified = info.verified_insns,
                         .runs = info.run_cnt,
                         .run_time_ns = info.run_time_ns});
    }
    return costs;
}

} // namespace bbrgym
