// SPDX-License-Identifier: GPL-2.0-only
//
// External flows: their datagrams go through the network as packets in slots, by their tags.
#include "engine.hpp"

#include "cc_controller.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

namespace bbrgym
{

namespace
{

constexpr int64_t REARMED_NS = 1000; // of a timer that is not after now: rounded times ask again, and time goes on
constexpr uint32_t MIN_DATAGRAM_BYTES = 1200; // RFC 9000, 14
constexpr uint32_t MAX_DATAGRAM_BYTES = 1472; // of an Ethernet frame
constexpr double NOTHING = std::numeric_limits<double>::quiet_NaN();

void
Check(const char* problem)
{
    if (problem != nullptr)
    {
        throw std::runtime_error(problem);
    }
}

/** What only a TCP of ours knows. */
void
Blank(FlowStats& row)
{
    row.delivery_rate_mbps = row.bw_mbps = row.retransmitted_pkts = row.lost_pkts = row.delivered_pkts = NOTHING;
    row.rto_count = row.phase = row.app_limited = row.in_order_arrival_mbps = NOTHING;
    row.busy_share = row.rwnd_limited_share = row.sndbuf_limited_share = NOTHING;
}

void
Blank(FlowSummary& row)
{
    row.retransmitted_pkts = row.lost_pkts = row.retransmit_rate = row.rto_count = NOTHING;
    row.in_order_arrival_mbps = row.out_of_order_rate = NOTHING;
    row.busy_share = row.rwnd_limited_share = row.sndbuf_limited_share = NOTHING;
}

template <class Row>
void
BlankRow(std::span<double> table, std::size_t flow)
{
    Row row = ReadRow<Row>(table, flow);
    Blank(row);
    WriteRow(row, table, flow);
}

} // namespace

OpenStack&
StackOpener()
{
    static OpenStack opener = [](const std::string& name, const auto&...) {
        throw std::runtime_error("no stack '" + name + "' is known");
    };
    return opener;
}

void
OpenLibrary(const std::string& path, const bbrgym_facts& facts, const bbrgym_port& port, bbrgym_stack& stack)
{
    void* object = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL); // stays to the end of the process
    auto* open = object ? reinterpret_cast<bbrgym_open_function*>(dlsym(object, "bbrgym_open_stack")) : nullptr;
    Check(open ? open(&facts, &port, &stack) : dlerror());
}

void
Engine::OpenExternal(FlowState& flow, uint64_t seed)
{
    const Flow& spec = m_scenario->flows[flow.index];
    const auto external = m_externals[flow.index] = std::make_shared<ExternalFlow>();
    external->port = {
        .twin = this,
        .flow = flow.index,
        .send =
            [](const bbrgym_port* port, bbrgym_end end, uint32_t bytes, uint64_t tag) {
                return static_cast<Engine*>(port->twin)->SendExternal(port->flow, end, bytes, tag);
            },
        .set_timer = [](const bbrgym_port* port, bbrgym_end end,
                        int64_t at_ns) { static_cast<Engine*>(port->twin)->SetExternalTimer(port->flow, end, at_ns); },
        .readable =
            [](const bbrgym_port* port, uint64_t bytes) {
                Engine& engine = *static_cast<Engine*>(port->twin);
                engine.NoteReadable(engine.m_flows[port->flow], bytes);
            },
        .rtt_sample =
            [](const bbrgym_port* port, int64_t rtt_ns) {
                Engine& engine = *static_cast<Engine*>(port->twin);
                FlowState& flow = engine.m_flows[port->flow];
                engine.OnPath(flow, [&flow, rtt_ns](Hop& hop) {
                    hop.measurement.RttSample(flow.index, std::max<int64_t>(rtt_ns, 0));
                });
            }};
    const uint32_t full_bytes = m_scenario->mss_bytes + HEADER_BYTES;
    const uint32_t datagram_bytes = full_bytes - std::min(full_bytes, external->stack.overhead_bytes);
    StackOpener()(spec.quic,
                  {.cc = spec.cc.c_str(),
                   .seed = cc_stream_seed(seed, ("flow." + spec.name + ".quic").c_str()),
                   .datagram_bytes = std::clamp(datagram_bytes, MIN_DATAGRAM_BYTES, MAX_DATAGRAM_BYTES),
                   .window_bytes = BufferBytes(*m_scenario)},
                  external->port, external->stack);
}

const char*
Engine::SendExternal(std::size_t index, bbrgym_end end, uint32_t bytes, uint64_t tag)
{
    FlowState& flow = m_flows[index];
    const uint64_t ip_bytes = uint64_t{bytes} + m_externals[index]->stack.overhead_bytes;
    if (bytes == 0 || ip_bytes > PacketName::MAX_EXTERNAL_BYTES)
    {
        return "a datagram is empty or larger than 4,000 bytes";
    }
    const uint32_t slot = PutInSlot({AckName(), {{}, tag, static_cast<int64_t>(ip_bytes)}});
    if (end == BBRGYM_SENDER)
    {
        Emit(flow, PacketName::OfExternal(slot, ip_bytes, index, false));
        OnPath(flow, [&flow](Hop& hop) { hop.measurement.Sent(flow.index, false); });
        return nullptr;
    }
    SendBack(flow, {static_cast<uint32_t>(index), flow.first_back == Hop::NONE ? HeldAck::IN_PIPES : slot,
                    AckName(slot, false, AckName::EXTERNAL_BLOCKS)});
    return nullptr;
}

void
Engine::SetExternalTimer(std::size_t index, bbrgym_end end, int64_t at_ns)
{
    const std::size_t leaf = ExternalTimerLeaf(index, end);
    if (at_ns == NEVER_NS)
    {
        m_senders.Clear(leaf);
        return;
    }
    const int64_t time_ns = at_ns > m_now_ns ? at_ns : m_now_ns + REARMED_NS;
    m_senders.Move(leaf, {time_ns, Order(SENDERS, SourceOf(index, end == BBRGYM_SENDER ? TIMER : SYN_TIMER))});
}

/** A timer or the application. */
void
Engine::HandleExternal(FlowState& flow, FlowSource kind)
{
    if (kind == APP)
    {
        m_senders.RemoveSeldom();
        if (std::exchange(flow.app_event_ns, NEVER_NS) == m_now_ns)
        {
            RunApplication(flow);
        }
        return;
    }
    const bbrgym_end end = kind == TIMER ? BBRGYM_SENDER : BBRGYM_RECEIVER;
    const bbrgym_stack& stack = m_externals[flow.index]->stack;
    m_senders.Clear(ExternalTimerLeaf(flow.index, end));
    Check(stack.due(stack.self, m_now_ns, end));
}

void
Engine::DeliverExternal(FlowState& flow, bbrgym_end end, std::size_t slot)
{
    const uint64_t tag = m_acks[slot].content.window_end;
    m_free_slots.push_back(static_cast<uint32_t>(slot));
    flow.arrived_pkts += end == BBRGYM_RECEIVER;
    const bbrgym_stack& stack = m_externals[flow.index]->stack;
    Check(stack.delivered(stack.self, m_now_ns, end, tag));
}

void
Engine::DropExternal(const PacketName& name)
{
    const bbrgym_stack& stack = m_externals[name.Flow()]->stack;
    Check(stack.dropped(stack.self, m_now_ns, m_acks[name.Slot()].content.window_end));
}

void
Engine::WriteExternal(FlowState& flow, uint64_t bytes)
{
    const bbrgym_stack& stack = m_externals[flow.index]->stack;
    Check(stack.write(stack.self, m_now_ns, bytes));
}

void
Engine::RunExternalApplication(FlowState& flow)
{
    const App& app = m_scenario->flows[flow.index].app;
    if (const auto* bulk = std::get_if<Bulk>(&app))
    {
        WriteExternal(flow, bulk->pkts > 0 ? bulk->pkts * m_scenario->mss_bytes : BBRGYM_WITHOUT_END);
        return;
    }
    WriteTimes& times = m_write_times[flow.index];
    if (const uint64_t pkts = times.Pkts(); pkts > 0)
    {
        WriteExternal(flow, pkts * m_scenario->mss_bytes);
    }
    ArmApplication(flow, times.NextNs(m_now_ns));
}

SenderState
Engine::StateOfExternal(std::size_t flow) const
{
    const bbrgym_stack& stack = m_externals[flow]->stack;
    bbrgym_sender_state state{NOTHING, NOTHING, NOTHING, NOTHING, NOTHING};
    stack.state(stack.self, &state);
    return {.pacing_Bps = state.pacing_Bps,
            .cwnd_pkts = state.cwnd_bytes / m_scenario->mss_bytes,
            .in_flight_pkts = state.in_flight_bytes / m_scenario->mss_bytes,
            .srtt_us = state.srtt_us,
            .min_rtt_us = state.min_rtt_us};
}

/** Fields of external flows that nobody knows. */
void
Engine::BlankExternal(std::span<double> flow_table, bool is_summary) const
{
    for (std::size_t flow = 0; flow < m_externals.size(); ++flow)
    {
        if (m_externals[flow])
        {
            is_summary ? BlankRow<FlowSummary>(flow_table, flow) : BlankRow<FlowStats>(flow_table, flow);
        }
    }
}

} // namespace bbrgym
