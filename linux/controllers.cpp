// SPDX-License-Identifier: GPL-2.0-only
#include "controllers.hpp"

#include "kernel_sender.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

namespace bbrgym
{

namespace
{

/** Whether a fair share of a link may come near the rate below which BBR sends segment by segment. */
bool
IsSlow(const Scenario& scenario)
{
    double slowest_bps = std::numeric_limits<double>::infinity();
    for (const Flow& flow : scenario.flows)
    {
        for (const uint32_t index : flow.there)
        {
            const Link& link = scenario.LinkAt(index);
            slowest_bps = link.trace ? slowest_bps : std::min(slowest_bps, link.rate_bps);
            for (const LinkChange& change : link.changes)
            {
                slowest_bps = std::min(slowest_bps, change.rate_bps.value_or(slowest_bps));
            }
        }
    }
    return slowest_bps / static_cast<double>(scenario.flows.size()) < 2.0 * 8.0 * BBR_MIN_TSO_RATE_Bps;
}

/** The kernel's own control that the parameters of a flow that switches choose; null: it has none. */
const char*
ChosenOfKernel(const cc_params& params)
{
    switch (cc_chosen_algorithm(&params))
    {
    case CC_ALGORITHM_CUBIC: return "cubic";
    case CC_ALGORITHM_RENO: return "reno";
    case CC_ALGORITHM_BBR: return "bbr";
    default: return nullptr;
    }
}

constexpr const char* NO_ARM = "bbr3, which no kernel has of its own, expected arms cubic, reno and bbr";

} // namespace

Controllers::Controllers(std::shared_ptr<const Scenario> scenario, uint64_t seed, const Network& network,
                         const std::string& policy)
    : m_scenario(std::move(scenario)),
      m_network(network),
      m_settings(m_scenario->flows.size()),
      m_programs(m_scenario->flows.size()),
      m_policy(policy),
      m_traces(m_scenario->flows.size())
{
    for (std::size_t flow = 0; flow < m_scenario->flows.size(); ++flow)
    {
        if (const auto variant = FindVariant(m_scenario->flows[flow].cc))
        {
            Attach(flow, *variant, seed);
        }
        else
        {
            m_tunables.AddFlow(TunableTable::NO_VARIANT, {});
        }
    }
    if (!m_policy.empty() && std::ranges::none_of(m_settings, &bpf_flow_settings::has_policy))
    {
        const std::string variant = m_policy_variant.value_or("a variant of BBR");
        throw std::invalid_argument("policy: sets tunables of " + (variant.empty() ? "no variant" : variant) +
                                    ", expected a flow with role tuned and that cc in scenario '" + m_scenario->name +
                                    "'");
    }
}

void
Controllers::Attach(std::size_t flow, int variant, uint64_t seed)
{
    const Flow& spec = m_scenario->flows[flow];
    const std::string path = "flows[" + std::to_string(flow) + "]";
    bpf_flow_settings& settings = m_settings[flow];
    settings.params = ParamsOf(spec, variant, path);
    settings.rng_seed = cc_stream_seed(seed, ("flow." + spec.name).c_str());
    settings.flow = static_cast<uint32_t>(flow);
    settings.is_paced = spec.stack.socket.pacing != pacing_choice::none;
    m_tunables.AddFlow(variant, settings.params);
    if (spec.cc == SWITCHING)
    {
        const char* const chosen = ChosenOfKernel(settings.params);
        if (chosen == nullptr)
        {
            throw ScenarioError(path + ".tunables.switch_arm", std::string("is ") + NO_ARM);
        }
        SetController(m_network.senders[flow].Get(), chosen);
        return;
    }
    try
    {
        if (!m_policy_variant)
        {
            m_policy_variant = CongestionControl::PolicyVariantOf(m_policy);
        }
        CongestionControl& program = ProgramFor(settings);
        settings.has_policy = spec.role == Role::TUNED && spec.cc == program.PolicyVariant();
        m_programs[flow] = &program;
        program.Attach(m_network.senders[flow].Get(), settings);
    }
    catch (const CongestionControlError& error)
    {
        throw ScenarioError(path + ".cc", "is '" + spec.cc + "', which this machine cannot run in BPF (" +
                                              error.what() + "), expected kernel-bbr, kernel-cubic or kernel-reno");
    }
}

/** The BPF program for these settings' BBR generation; loads it on first use. */
CongestionControl&
Controllers::ProgramFor(const bpf_flow_settings& settings)
{
    const auto generation_of = [](const cc_params& params) { return cc_is_bbr3(&params) ? 1U : 0U; };
    const std::size_t generation = generation_of(settings.params);
    if (!m_generations[generation])
    {
        cc_params of_policy = settings.params;
        if (const auto variant = FindVariant(*m_policy_variant))
        {
            cc_params_init(&of_policy, static_cast<cc_variant>(*variant));
        }
        const std::string object = generation_of(of_policy) == generation ? m_policy : "";
        m_generations[generation] =
            std::make_unique<CongestionControl>(settings, WAITING_RECORDS, IsSlow(*m_scenario), object);
    }
    return *m_generations[generation];
}

void
Controllers::WriteTo(std::span<double> table)
{
    for (std::size_t flow = 0; flow < m_settings.size(); ++flow)
    {
        if (m_settings[flow].has_policy)
        {
            const cc_params params = m_programs[flow]->Settings(m_network.senders[flow].Get()).params;
            m_tunables.SetParams(flow, params);
            const std::lock_guard lock(m_mutex);
            m_settings[flow].params = params;
        }
    }
    m_tunables.WriteTo(table);
}

void
Controllers::TakeTunables(std::span<const double> table)
{
    const std::lock_guard lock(m_mutex);
    for (const auto& [flow, params] : m_tunables.Changes(table, *m_scenario))
    {
        m_settings[flow].params = params;
        const int socket = m_network.senders[flow].Get();
        if (m_programs[flow] != nullptr)
        {
            m_programs[flow]->SetSettings(socket, m_settings[flow]);
        }
        else if (const char* const chosen = ChosenOfKernel(params))
        {
            SetController(socket, chosen); // the kernel does nothing where it is the one at work
        }
        else
        {
            throw std::invalid_argument("flow '" + m_scenario->flows[flow].name + "': switch_arm is " + NO_ARM);
        }
    }
}

bpf_flow_settings
Controllers::SettingsOf(std::size_t flow) const
{
    const std::lock_guard lock(m_mutex);
    return m_settings[flow];
}

SenderState
Controllers::Read(std::size_t flow) const
{
    const int socket = m_network.senders[flow].Get();
    SenderState state = ReadKernelSender(socket);
    const auto ours = m_programs[flow] != nullptr ? m_programs[flow]->Read(socket) : std::nullopt;
    if (!ours)
    {
        return state;
    }
    const bpf_flow_settings settings = SettingsOf(flow);
    const uint64_t min_rtt_us = cc_min_rtt_us(&ours->state, &settings.params);
    const bool is_paced = settings.is_paced && ours->state.pacing_Bps != UINT64_MAX;
    state.bw_Bps = static_cast<double>(cc_bw_Bps(&ours->state));
    state.pacing_Bps = is_paced ? static_cast<double>(ours->state.pacing_Bps) : 0;
    state.min_rtt_us = min_rtt_us == CC_RTT_UNKNOWN_US ? 0 : static_cast<double>(min_rtt_us);
    state.phase = cc_phase(&ours->state, &settings.params);
    state.marked_lost_pkts = ours->total_lost_pkts;
    return state;
}

// ---- ACK traces -----------------------------------------------------------------------------------------

void
Controllers::RequireOurs(std::size_t flow) const
{
    if (m_programs[flow] == nullptr)
    {
        throw std::invalid_argument("ack trace: flows[" + std::to_string(flow) + "].cc is '" +
                                    m_scenario->flows[flow].cc +
                                    "', of whose ACKs the kernel tells nothing, expected a variant of BBR");
    }
}

void
Controllers::TraceAcks(std::size_t flow, std::size_t max_rows)
{
    RequireOurs(flow);
    m_traces[flow] = {.rows = {}, .max_rows = max_rows};
    m_is_tracing = true;
    const std::lock_guard lock(m_mutex);
    m_settings[flow].is_recorded = true;
    m_programs[flow]->SetSettings(m_network.senders[flow].Get(), m_settings[flow]);
}

void
Controllers::TakeRecords(const RunClock& clock)
{
    if (!m_is_tracing)
    {
        return;
    }
    for (const auto& program : m_generations)
    {
        for (const bpf_record& record : program ? program->TakeRecords() : std::vector<bpf_record>())
        {
            TakeRecord(record, clock);
        }
    }
}

void
Controllers::TakeRecord(const bpf_record& record, const RunClock& clock)
{
    Trace& trace = m_traces[record.flow];
    trace.lost += trace.next == 0 ? 0 : record.number - trace.next;
    trace.next = record.number + 1;
    if (record.event.kind == BPF_EVENT_ACK && trace.rows.size() < trace.max_rows)
    {
        cc_sample sample = record.event.sample;
        sample.now_us = static_cast<uint64_t>(clock.RunAt(static_cast<int64_t>(sample.now_us) * 1000) / 1000);
        trace.rows.push_back(MakeAckRecord(sample, record.after, record.params));
    }
}

const std::vector<AckRecord>&
Controllers::AckTrace(std::size_t flow) const
{
    RequireOurs(flow);
    const Trace& trace = m_traces[flow];
    if (trace.lost > 0)
    {
        throw std::runtime_error("ack trace: " + std::to_string(trace.lost) + " events of flows[" +
                                 std::to_string(flow) + "] were not read in time, this machine is too busy for it");
    }
    return trace.rows;
}

} // namespace bbrgym
