// SPDX-License-Identifier: GPL-2.0-only
//
// cc/ as a TCP congestion control of the running kernel. It is registered as long as its object lives: unless it is
// pinned, the kernel takes it off when its owner ends, however it ends. Sockets that still use it keep it until they
// close.
#ifndef BBRGYM_LINUX_BPF_CONGESTION_CONTROL_HPP
#define BBRGYM_LINUX_BPF_CONGESTION_CONTROL_HPP

#include "descriptor.hpp"
#include "object.hpp"

extern "C"
{
#include "flow.h"
}

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace bbrgym
{

/** What one program of the kernel costs. */
struct ProgramCost
{
    std::string name;          ///< of the hook: cong_control, set_state, ...
    uint32_t instructions = 0; ///< as compiled, with the functions it calls
    uint32_t verified = 0;     ///< that the verifier went through
    uint64_t runs = 0;         ///< since MeasureCost
    uint64_t run_time_ns = 0;  ///< of these
};

/** What a flow's policy did so far. */
struct PolicyReport
{
    uint64_t decisions = 0;
    uint64_t decision_ns = 0; ///< that all of them took
    std::string state;        ///< the bytes of struct policy_state, as the policy's header has it, and what follows it
};

/** Settings with the preset of a variant, paced. */
inline bpf_flow_settings
PresetSettings(cc_variant variant, uint64_t rng_seed = 0)
{
    bpf_flow_settings settings{};
    cc_params_init(&settings.params, variant);
    settings.rng_seed = rng_seed;
    settings.is_paced = true;
    return settings;
}

class CongestionControl
{
  public:
    /**
     * Why this build or this machine cannot have it, or not one with a name, in a sentence; empty: it can. Loads and
     * registers one to find out.
     */
    static std::string WhyNot(bool is_named = false);

    /** The compiler of the program without a policy, which the package carries; empty: it was built without one. */
    static std::string Compiler();

    /** The variant whose tunables the policy of an object file sets; empty: no file, or no policy in it. Throws. */
    static std::string PolicyVariantOf(const std::string& object);

    /**
     * Loads and registers it. `defaults` are the settings of a socket that is given none; their algorithm says whether
     * the program has BBR v1, or v2 and v3. `records`: how many records of events may wait to be taken, of the flows
     * whose settings ask for them. `is_slow`: below BBR_MIN_TSO_RATE_Bps segments leave one by one, as BBR wants it,
     * otherwise by two at all rates. `object`: file of a program compiled with a policy, see policy.h; empty: the one
     * without. `name`: for TCP_CONGESTION, at most 15 bytes; empty: one of this object alone, bbrgym_ and eight digits,
     * without the iterators that one to be pinned has. Throws CongestionControlError.
     */
    explicit CongestionControl(const bpf_flow_settings& defaults, std::size_t records = 0, bool is_slow = false,
                               const std::string& object = "", const std::string& name = "");
    CongestionControl(const CongestionControl&) = delete;
    CongestionControl& operator=(const CongestionControl&) = delete;

    /** Its name for TCP_CONGESTION. */
    const std::string& Name() const { return m_name; }

    /**
     * Gives a socket these settings, of the program's generation of BBR, and this congestion control, before or after
     * it connects. Throws.
     */
    void Attach(int socket, const bpf_flow_settings& settings);

    /** Changes a socket's settings as a whole, from its next event on. Throws. */
    void SetSettings(int socket, const bpf_flow_settings& settings);

    /** A socket's settings now: its policy may have changed them. Throws. */
    bpf_flow_settings Settings(int socket) const;

    /** The variant whose tunables the program's policy sets; empty: it has no policy. Throws. */
    std::string PolicyVariant() const;

    /** What a flow's policy did; none: it has none, or has not started. */
    std::optional<PolicyReport> ReadPolicy(int socket) const;

    /** A flow's state after a whole event; none: its connection does not stand, or its events leave no gap. */
    std::optional<bpf_flow> Read(int socket) const;

    /** Takes the records that wait, oldest first. */
    std::vector<bpf_record> TakeRecords();

    /** Lets the kernel count runs and time of all BPF programs as long as this object lives; costs 20 ns a run. */
    void MeasureCost();
    std::vector<ProgramCost> Costs() const;

    /**
     * Pins one with a name in a folder of a BPF file system, so that it outlives this object: what new sockets are
     * given ("defaults", bpf_flow_settings), what is written by reading it ("flows", rows of bpf_flow_row; "sockets",
     * see iterators.h, with "move", bpf_move), and last what keeps it registered ("link"). Throws.
     */
    void PinTo(const std::string& folder) const;

  private:
    void CheckObject(const std::string& file) const;
    void Register();
    void PinIterator(const char* program, const char* map, const std::string& file) const;

    std::string m_name;
    const char* m_map; ///< of the hooks that it registers
    bool m_is_bbr3;    ///< the program's generation of BBR
    BpfObject m_object;
    Descriptor m_link;
    Descriptor m_statistics;
    RecordRing<bpf_record> m_records;
};

} // namespace bbrgym

#endif
