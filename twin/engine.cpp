// SPDX-License-Identifier: GPL-2.0-only
#include "engine.hpp"

#include "sender_state.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>

namespace bbrgym
{

namespace
{

constexpr int64_t SYN_TIMEOUT_NS = 1'000'000'000; // RFC 6298; doubles each time
constexpr uint32_t SYN_TRIES = 20;
constexpr uint64_t FIRST_WINDOW_BYTES = 65'535; // a SYN-ACK's window is not scaled (RFC 7323, 2.2)
constexpr uint64_t MIN_BACKLOG_PKTS = 64;
constexpr uint64_t EVERYTHING = uint64_t{1} << 40; // more segments than any buffer takes
constexpr uint64_t EVENTS_BETWEEN_LOOKS = 1024; // some tenths of a millisecond
constexpr std::size_t MIN_RESERVED_PKTS = 16;
constexpr std::size_t MAX_RESERVED_PKTS = 4096; // beyond it memory is allocated when needed

/** Outside the loop over events, which is to stay small. */
[[gnu::noinline]] void
Look(StopCheck* stop)
{
    if (stop && stop->ShouldStop())
    {
        throw Stopped();
    }
}

/** Packets that a flow can have in the network, and as many again SACKed or waiting to be sent again. */
std::size_t
ReservedPkts(const Scenario& scenario)
{
    const double window_pkts = UsefulWindowBytes(scenario) / scenario.mss_bytes;
    return std::clamp(static_cast<std::size_t>(2 * window_pkts / static_cast<double>(scenario.flows.size())),
                      MIN_RESERVED_PKTS,
                      MAX_RESERVED_PKTS);
}

} // namespace

// ---- a run ----------------------------------------------------------------------------------------------

void
Engine::Reset(std::shared_ptr<const Scenario> scenario, uint64_t seed, const WorldTables& tables)
{
    m_scenario = std::move(scenario);
    m_now_ns = 0;
    m_next_order = 0;
    m_event_count = 0;
    m_events.Reset(LeafCount());
    m_buffer_pkts = BufferBytes(*m_scenario) / m_scenario->mss_bytes;
    m_useful_window_pkts = UsefulWindowBytes(*m_scenario) / m_scenario->mss_bytes;
    m_measurement.Reset(*m_scenario);
    m_tunables.Reset();

    if (m_scenario->link.last_hop)
    {
        throw ScenarioError("link.last_hop",
                            "is given, which the twin does not have: use the ns3 world, or record the hop with `bbrgym scenario "
                            "NAME record=FILE` and follow that file as link.trace_path");
    }
    m_bottleneck.Reset(m_scenario->link, m_scenario->flows.size(), m_scenario->mss_bytes + HEADER_BYTES, seed);
    m_link.clear();
    m_late.clear();
    m_ack_gate.Reset(m_scenario->link.acks);
    PrepareScript();
    m_flows.resize(m_scenario->flows.size());
    for (std::size_t flow = 0; flow < m_flows.size(); ++flow)
    {
        PrepareFlow(flow, seed);
    }
    m_tunables.Show(tables.tunables);
    m_measurement.TakeInterval(*this, tables.flow_stats, tables.link_stats);
}

std::size_t
Engine::LeafCount() const
{
    const Link& link = m_scenario->link;
    const bool is_plain = !link.jitter && std::holds_alternative<AcksAtOnce>(link.acks);
    return LeafOf(m_scenario->flows.size(), ACCESS) + (is_plain ? 0 : 2);
}

void
Engine::PrepareFlow(std::size_t flow, uint64_t seed)
{
    const Flow& spec = m_scenario->flows[flow];
    const auto variant = FindVariant(spec.cc);
    const std::string path = "flows[" + std::to_string(flow) + "]";
    if (!variant)
    {
        throw ScenarioError(path + ".cc", "is '" + spec.cc + "', which the twin does not have: ns-3's own need the ns3 world");
    }
    const cc_params params = ParamsOf(spec, *variant, path);
    m_tunables.AddFlow(*variant, params);

    // Everything is new except the memory.
    FlowState& state = m_flows[flow];
    FlowState fresh;
    std::swap(fresh.sender, state.sender);
    std::swap(fresh.receiver, state.receiver);
    std::swap(fresh.access, state.access);
    std::swap(fresh.way_back, state.way_back);
    std::swap(fresh.way_back_blocks, state.way_back_blocks);
    std::swap(fresh.way_back_windows, state.way_back_windows);
    std::swap(fresh.trace, state.trace);
    state = std::move(fresh);
    state.sender.Reset(ReservedPkts(*m_scenario));
    state.sender.GetController().Init(params, cc_stream_seed(seed, ("flow." + spec.name).c_str()));
    state.receiver.Reset(spec.stack.socket, m_scenario->mss_bytes);
    state.send_buffer.Reset(spec.stack.socket, m_scenario->mss_bytes, !state.sender.GetController().IsLossBased());
    state.access.clear();
    state.way_back.clear();
    state.way_back_blocks.clear();
    state.way_back_windows.clear();
    state.trace.clear();
    state.random.emplace(seed, "flow." + spec.name + ".app");

    const PathDelays delays = PathDelaysOf(spec, m_scenario->link);
    state.access_ns = delays.access_ns;
    state.return_ns = delays.return_ns;
    PutSeldom(spec.start_ns, SourceOf(flow, LIFE));
}

/** The link's changes and the warm-up's end, by time; at the same time the warm-up ends first. */
void
Engine::PrepareScript()
{
    const auto& changes = m_scenario->link.changes;
    const auto time_ns = [&](std::size_t i) { return i < changes.size() ? changes[i].at_ns : m_scenario->warmup_ns; };
    m_script.resize(changes.size() + 1);
    std::iota(m_script.begin(), m_script.end(), 0);
    std::rotate(m_script.begin(), m_script.end() - 1, m_script.end());
    std::ranges::stable_sort(m_script, {}, time_ns);
    m_script_at = 0;
    PutSeldom(time_ns(m_script[0]), SCRIPT);
}

void
Engine::RunScript()
{
    const auto& changes = m_scenario->link.changes;
    const std::size_t index = m_script[m_script_at++];
    if (index == changes.size())
    {
        m_measurement.WarmedUp(*this);
    }
    else
    {
        m_bottleneck.Change(changes[index], m_now_ns);
    }
    if (m_script_at < m_script.size())
    {
        const std::size_t next = m_script[m_script_at];
        PutSeldom(next < changes.size() ? changes[next].at_ns : m_scenario->warmup_ns, SCRIPT);
    }
}

void
Engine::Advance(double duration_s, const WorldTables& tables, StopCheck* stop)
{
    if (!(duration_s >= 0))
    {
        throw std::invalid_argument("advance: the duration is " + std::to_string(duration_s) + ", expected >= 0 s");
    }
    for (const auto& [flow, params] : m_tunables.Changes(tables.tunables, *m_scenario))
    {
        m_flows[flow].sender.GetController().SetParams(params);
    }
    const int64_t left_ns = m_scenario->duration_ns - m_now_ns;
    RunUntil(m_now_ns + std::min<int64_t>(std::llround(std::min(duration_s * 1e9, 9e18)), left_ns), stop);
    m_measurement.TakeInterval(*this, tables.flow_stats, tables.link_stats);
}

void
Engine::Summarise(std::span<double> flow_table, std::span<double> link_row) const
{
    m_measurement.Summarise(*this, flow_table, link_row);
}

// ---- events ---------------------------------------------------------------------------------------------

/** An interval holds all events of its last instant, so that the size of the steps changes nothing. */
void
Engine::RunUntil(int64_t end_ns, StopCheck* stop)
{
    uint64_t look_at = m_event_count + EVENTS_BETWEEN_LOOKS;
    while (m_events.First().time_ns <= end_ns)
    {
        const Event event = m_events.First();
        m_now_ns = event.time_ns;
        ++m_event_count;
        Handle(event.Source());
        if (m_event_count == look_at) [[unlikely]]
        {
            look_at += EVENTS_BETWEEN_LOOKS;
            Look(stop);
        }
    }
    m_now_ns = end_ns;
}

void
Engine::Handle(uint32_t source)
{
    if (source >= FIRST_FLOW)
    {
        HandleFlow((source - FIRST_FLOW) / SOURCES_PER_FLOW,
                   static_cast<FlowSource>((source - FIRST_FLOW) % SOURCES_PER_FLOW));
    }
    else if (source == SERVER)
    {
        Serve();
    }
    else if (source == LINK || source == LATE)
    {
        ReachReceiver(source);
    }
    else if (source == GATE)
    {
        LeaveGate();
    }
    else
    {
        m_events.RemoveSeldom();
        RunScript();
    }
}

void
Engine::HandleFlow(std::size_t flow, FlowSource kind)
{
    switch (kind)
    {
    case ACCESS:
        ReachQueue(flow);
        return;
    case WAY_BACK:
        ReachSender(flow);
        return;
    case SEND:
        SendNow(flow);
        return;
    default:
        m_events.RemoveSeldom();
    }

    FlowState& state = m_flows[flow];
    // A timer that was moved leaves its old event behind.
    const auto is_due = [this](int64_t& event_ns) {
        const bool due = event_ns == m_now_ns;
        event_ns = due ? NEVER_NS : event_ns;
        return due;
    };
    if (kind == TIMER && is_due(state.timer_event_ns))
    {
        OnTimer(flow);
    }
    else if (kind == DELAYED_ACK && is_due(state.delayed_ack_event_ns))
    {
        AnswerDelayed(flow);
    }
    else if (kind == APP && is_due(state.app_event_ns))
    {
        RunApplication(flow);
    }
    else if (kind == SYN_TIMER && is_due(state.syn_event_ns))
    {
        SendSyn(flow);
    }
    else if (kind == LIFE)
    {
        StartOrStop(flow);
    }
}

// ---- the network ----------------------------------------------------------------------------------------

/** A packet leaves the sender. */
void
Engine::Emit(std::size_t flow, uint64_t serial, EcnBits ecn)
{
    FlowState& state = m_flows[flow];
    const PacketName name{serial, flow, ecn.is_capable, ecn.is_marked, ecn.has_reduced};
    state.access.push_back({m_now_ns + state.access_ns, Order(flow, ACCESS), name});
    if (state.access.size() == 1)
    {
        ShowPipe(state.access, LeafOf(flow, ACCESS));
    }
}

void
Engine::ReachQueue(std::size_t flow)
{
    FlowState& state = m_flows[flow];
    const PacketName name = state.access.front().name;
    state.access.pop_front();
    ShowPipe(state.access, LeafOf(flow, ACCESS));
    if (m_bottleneck.Arrive({m_now_ns, name}, m_now_ns, m_measurement))
    {
        ShowServer();
    }
}

void
Engine::ShowServer()
{
    const int64_t next_ns = m_bottleneck.NextServiceNs();
    next_ns == NEVER_NS ? m_events.Clear(SERVER) : m_events.Set(SERVER, {next_ns, Order(SERVER)});
}

void
Engine::Serve()
{
    m_bottleneck.Serve(m_now_ns, m_measurement, [this](const QueuedPacket& packet, LinkDelay::Arrival arrival) {
        PutOnLink(packet.name, arrival);
    });
    ShowServer();
}

void
Engine::PutOnLink(PacketName name, LinkDelay::Arrival arrival)
{
    if (arrival.is_overtaken) [[unlikely]]
    {
        m_late.push_back({arrival.at_ns, Order(LATE), name});
        ShowPipe(m_late, LateLeaf());
        return;
    }
    m_link.push_back({arrival.at_ns, Order(LINK), name});
    if (m_link.size() == 1)
    {
        ShowPipe(m_link, LINK);
    }
}

/** A packet comes in from one of the link's two pipes. */
void
Engine::ReachReceiver(uint32_t source)
{
    Ring<PacketInPipe>& link = source == LINK ? m_link : m_late;
    const PacketName packet = link.front().name;
    link.pop_front();
    ShowPipe(link, source == LINK ? std::size_t{LINK} : LateLeaf());
    FlowState& state = m_flows[packet.flow];
    if (packet.serial == SYN && !state.is_accepted && state.arrived_pkts == 0)
    {
        SendBack({packet.flow, 0, AckInPipe::SYN_ACK_BLOCKS, false});
    }
    if (!packet.IsData())
    {
        state.is_accepted |= packet.serial == HANDSHAKE_ACK;
        return;
    }
    ++state.arrived_pkts;
    const TcpReceiver::Arrival arrival = state.receiver.Take(packet.serial, m_now_ns, packet.Ecn());
    if (arrival.readable_pkts > 0)
    {
        m_measurement.Readable(packet.flow, uint64_t{arrival.readable_pkts} * m_scenario->mss_bytes);
    }
    if (arrival.answer_at_once)
    {
        SendAck(packet.flow);
    }
    else
    {
        state.delayed_ack_order = Order(packet.flow, DELAYED_ACK);
        ArmDelayedAck(packet.flow);
    }
}

/** An event that is already scheduled comes first and is then moved to the new deadline. */
void
Engine::ArmDelayedAck(std::size_t flow)
{
    FlowState& state = m_flows[flow];
    if (state.delayed_ack_event_ns == NEVER_NS)
    {
        state.delayed_ack_event_ns = state.receiver.DelayedAckDeadlineNs();
        m_events.AddSeldom({state.delayed_ack_event_ns, state.delayed_ack_order});
    }
}

void
Engine::AnswerDelayed(std::size_t flow)
{
    FlowState& state = m_flows[flow];
    const int64_t deadline_ns = state.receiver.DelayedAckDeadlineNs();
    if (deadline_ns == m_now_ns)
    {
        SendAck(flow);
    }
    else if (deadline_ns != NEVER_NS)
    {
        ArmDelayedAck(flow);
    }
}

void
Engine::SendAck(std::size_t flow)
{
    FlowState& state = m_flows[flow];
    std::array<SerialRange, MAX_SACK_BLOCKS> blocks;
    const std::size_t count = state.receiver.Acknowledge(blocks);
    for (std::size_t i = 0; i < count; ++i)
    {
        state.way_back_blocks.push_back(blocks[i]);
    }
    if (!state.receiver.Window().IsAmple())
    {
        state.way_back_windows.push_back(state.receiver.Announce());
    }
    SendBack({flow, state.receiver.Next(), count, state.receiver.Echo()});
}

/** A packet leaves the receiver, unless the gate holds it. */
void
Engine::SendBack(HeldAck ack)
{
    if (!m_ack_gate.IsOpen()) [[unlikely]]
    {
        HoldAtGate(ack);
        return;
    }
    PutOnWayBack(ack);
}

void
Engine::HoldAtGate(HeldAck ack)
{
    if (m_ack_gate.Put(ack, m_now_ns))
    {
        LeaveGate();
    }
    else if (m_ack_gate.HasOne())
    {
        m_events.Set(GateLeaf(), {m_ack_gate.DeadlineNs(), Order(GATE)});
    }
}

void
Engine::LeaveGate()
{
    m_events.Clear(GateLeaf());
    m_ack_gate.Release([this](const HeldAck& ack) { PutOnWayBack(ack); });
}

inline void
Engine::PutOnWayBack(HeldAck ack)
{
    const std::size_t flow = ack.flow;
    FlowState& state = m_flows[flow];
    state.way_back.push_back({m_now_ns + state.return_ns, Order(flow, WAY_BACK), ack.una, ack.has_echo, ack.block_count});
    if (state.way_back.size() == 1)
    {
        ShowPipe(state.way_back, LeafOf(flow, WAY_BACK));
    }
}

void
Engine::ReachSender(std::size_t flow)
{
    FlowState& state = m_flows[flow];
    const AckInPipe ack = state.way_back.front();
    state.way_back.pop_front();
    ShowPipe(state.way_back, LeafOf(flow, WAY_BACK));
    if (ack.block_count == AckInPipe::SYN_ACK_BLOCKS)
    {
        Establish(flow);
        return;
    }
    std::array<SerialRange, MAX_SACK_BLOCKS> blocks;
    for (std::size_t i = 0; i < ack.block_count; ++i)
    {
        blocks[i] = state.way_back_blocks.front();
        state.way_back_blocks.pop_front();
    }
    uint64_t window_pkts = m_buffer_pkts;
    if (!state.receiver.Window().IsAmple())
    {
        window_pkts = state.way_back_windows.front() - ack.una;
        state.way_back_windows.pop_front();
    }
    TakeAck(flow, ack, std::span(blocks.data(), ack.block_count), window_pkts);
}

// ---- the sender -----------------------------------------------------------------------------------------

void
Engine::SendSyn(std::size_t flow)
{
    FlowState& state = m_flows[flow];
    if (state.is_established || state.syn_count >= SYN_TRIES)
    {
        return;
    }
    state.syn_sent_ns = m_now_ns;
    ++state.syn_count;
    Emit(flow, SYN);
    state.syn_event_ns = m_now_ns + (SYN_TIMEOUT_NS << (state.syn_count - 1));
    PutSeldom(state.syn_event_ns, SourceOf(flow, SYN_TIMER));
}

void
Engine::Establish(std::size_t flow)
{
    FlowState& state = m_flows[flow];
    const SocketFacts& facts = m_scenario->flows[flow].stack.socket;
    if (!state.is_established || facts.repeated_syn_ack)
    {
        Emit(flow, HANDSHAKE_ACK);
    }
    if (state.is_established)
    {
        return;
    }
    state.is_established = true;
    state.syn_event_ns = NEVER_NS;
    state.window_pkts = std::min(m_buffer_pkts, FIRST_WINDOW_BYTES / m_scenario->mss_bytes);
    if (!state.receiver.Window().IsAmple())
    {
        state.window_pkts = std::min(state.window_pkts, state.receiver.Window().AnnouncedBytes(0) / m_scenario->mss_bytes);
    }
    const bool is_clear = state.syn_count == 1; // Karn
    state.sender.Start(m_scenario->mss_bytes,
                       TcpSender<CcController>::INITIAL_CWND_PKTS,
                       is_clear ? m_now_ns - state.syn_sent_ns : -1,
                       facts,
                       m_now_ns);
    ArmSend(flow, m_now_ns);
}

void
Engine::TakeAck(std::size_t flow, const AckInPipe& ack, std::span<const SerialRange> blocks, uint64_t window_pkts)
{
    FlowState& state = m_flows[flow];
    state.window_pkts = window_pkts;
    const cc_sample& sample = state.sender.OnAck(ack.una, blocks, m_now_ns, ack.has_echo);
    if (sample.rtt_us >= 0)
    {
        m_measurement.RttSample(flow, sample.rtt_us * 1000);
    }
    if (state.trace.size() < state.max_trace_rows)
    {
        const CcController& controller = state.sender.GetController();
        state.trace.push_back(MakeAckRecord(sample, controller.State(), controller.Params()));
    }
    TrySend(flow);
    if (!state.send_buffer.IsAmple())
    {
        WakeWriter(flow);
    }
}

void
Engine::TrySend(std::size_t flow)
{
    FlowState& state = m_flows[flow];
    const uint64_t sent_before = state.sender.Totals().sent_pkts;
    for (;;)
    {
        const ToSend next = state.sender.Next(HasNew(state), m_now_ns);
        if (next.kind == ToSend::Kind::NOTHING)
        {
            break;
        }
        if (next.kind == ToSend::Kind::NEW)
        {
            SendNew(flow);
        }
        else
        {
            Emit(flow, next.serial);
            m_measurement.Sent(flow, true);
            state.sender.NoteAgain(next.serial, m_scenario->mss_bytes, m_now_ns);
        }
    }
    const bool has_sent = state.sender.Totals().sent_pkts > sent_before;
    state.sender.NoteQuiet(state.HasUnsent(), has_sent, state.is_running && state.send_buffer.HasWaitingWriter(), m_now_ns);
    if (state.sender.PacingDeadlineNs() != NEVER_NS)
    {
        ArmSend(flow, state.sender.PacingDeadlineNs());
    }
    ArmTimer(flow);
}

void
Engine::SendNew(std::size_t flow)
{
    FlowState& state = m_flows[flow];
    Emit(flow, state.sender.Board().Next(), state.sender.TakeEcnBits());
    m_measurement.Sent(flow, false);
    state.sender.NoteNew(m_scenario->mss_bytes, false, m_now_ns);
    if (state.backlog_pkts > 0 && state.is_running && 2 * (state.written - state.sender.Board().Next()) < state.backlog_pkts)
    {
        ArmApplication(flow, m_now_ns);
    }
}

void
Engine::OnTimer(std::size_t flow)
{
    FlowState& state = m_flows[flow];
    if (m_now_ns < state.sender.TimerDeadlineNs())
    {
        ArmTimer(flow); // ACKs have moved the deadline
        return;
    }
    if (state.sender.OnTimer(m_now_ns))
    {
        const bool is_new = HasNew(state);
        if (is_new)
        {
            SendNew(flow);
        }
        else
        {
            Emit(flow, state.sender.Board().Next() - 1);
            m_measurement.Sent(flow, true);
        }
        state.sender.NoteProbe(!is_new, m_scenario->mss_bytes, m_now_ns);
    }
    TrySend(flow);
}

/** Whether application and receiver window allow a new segment. */
bool
Engine::HasNew(const FlowState& flow) const
{
    return flow.HasUnsent() && flow.sender.Board().PacketsOut() < flow.window_pkts;
}

/** Handles the SEND event. */
void
Engine::SendNow(std::size_t flow)
{
    FlowState& state = m_flows[flow];
    state.send_event_ns = NEVER_NS;
    TrySend(flow);
    if (state.send_event_ns == NEVER_NS)
    {
        m_events.Clear(LeafOf(flow, SEND));
    }
}

/** The time is earlier than before only after a timeout, which restarts pacing. */
void
Engine::ArmSend(std::size_t flow, int64_t time_ns)
{
    FlowState& state = m_flows[flow];
    if (time_ns < state.send_event_ns)
    {
        state.send_event_ns = time_ns;
        m_events.Set(LeafOf(flow, SEND), {time_ns, Order(flow, SEND)});
    }
}

/** Moves the timers' event only if it would come too late. */
void
Engine::ArmTimer(std::size_t flow)
{
    FlowState& state = m_flows[flow];
    const int64_t deadline_ns = state.sender.TimerDeadlineNs();
    if (deadline_ns < state.timer_event_ns)
    {
        state.timer_event_ns = deadline_ns;
        PutSeldom(deadline_ns, SourceOf(flow, TIMER));
    }
}

// ---- the application ------------------------------------------------------------------------------------

void
Engine::StartOrStop(std::size_t flow)
{
    FlowState& state = m_flows[flow];
    const Flow& spec = m_scenario->flows[flow];
    if (state.is_running)
    {
        // Written data is still sent; no more is written.
        state.is_running = false;
        state.app_event_ns = NEVER_NS;
        m_measurement.FlowStopped(flow, *this);
        return;
    }
    state.is_running = true;
    PutSeldom(spec.stop_ns, SourceOf(flow, LIFE));
    m_measurement.FlowStarted(flow, *this);
    SendSyn(flow);
    if (std::holds_alternative<Bulk>(spec.app))
    {
        KeepBacklog(flow);
    }
    else
    {
        BeginBurst(flow);
    }
}

void
Engine::RunApplication(std::size_t flow)
{
    if (std::holds_alternative<Bulk>(m_scenario->flows[flow].app))
    {
        KeepBacklog(flow);
    }
    else if (m_now_ns < m_flows[flow].burst_stop_ns)
    {
        WriteOnBeat(flow);
    }
    else
    {
        BeginBurst(flow);
    }
}

/** Bulk: slightly more packets than the sender can use soon, so that it never waits and little is left at the stop. */
void
Engine::KeepBacklog(std::size_t flow)
{
    FlowState& state = m_flows[flow];
    if (!state.send_buffer.IsAmple())
    {
        Write(flow, EVERYTHING);
        return;
    }
    // Half a window is more than any ACK frees.
    const double cwnd_pkts = state.is_established ? state.sender.GetController().State().cwnd_pkts : 0;
    const double window_pkts = std::min(cwnd_pkts, m_useful_window_pkts);
    state.backlog_pkts = std::max(MIN_BACKLOG_PKTS, static_cast<uint64_t>(window_pkts / 2));
    const uint64_t unsent = state.written - state.sender.Board().Next();
    if (unsent < state.backlog_pkts)
    {
        Write(flow, state.backlog_pkts - unsent);
    }
}

void
Engine::BeginBurst(std::size_t flow)
{
    FlowState& state = m_flows[flow];
    const auto* on_off = std::get_if<OnOff>(&m_scenario->flows[flow].app);
    state.burst_start_ns = m_now_ns;
    state.burst_writes = 0;
    state.burst_stop_ns = NEVER_NS;
    if (on_off != nullptr)
    {
        const double length = on_off->random ? state.random->Exponential() : 1.0;
        state.burst_stop_ns = m_now_ns + std::llround(static_cast<double>(on_off->on_ns) * length);
    }
    WriteOnBeat(flow);
}

void
Engine::WriteOnBeat(std::size_t flow)
{
    FlowState& state = m_flows[flow];
    const App& app = m_scenario->flows[flow].app;
    const auto* on_off = std::get_if<OnOff>(&app);
    const double rate_bps = on_off != nullptr ? on_off->rate_bps : std::get<Cbr>(app).rate_bps;
    Write(flow, 1);
    ++state.burst_writes;
    // Computed from the burst's start, so that rounding errors do not accumulate.
    const double beat_ns = static_cast<double>(state.burst_writes) * m_scenario->mss_bytes * 8e9 / rate_bps;
    const int64_t next_ns = state.burst_start_ns + std::llround(beat_ns);
    if (next_ns < state.burst_stop_ns)
    {
        ArmApplication(flow, next_ns);
        return;
    }
    const double length = on_off->random ? state.random->Exponential() : 1.0;
    ArmApplication(flow, state.burst_stop_ns + std::llround(static_cast<double>(on_off->off_ns) * length));
}

void
Engine::ArmApplication(std::size_t flow, int64_t time_ns)
{
    FlowState& state = m_flows[flow];
    if (state.app_event_ns == NEVER_NS)
    {
        state.app_event_ns = time_ns;
        PutSeldom(time_ns, SourceOf(flow, APP));
    }
}

/** A third of a full send buffer is free again: a bulk writer goes on. */
void
Engine::WakeWriter(std::size_t flow)
{
    FlowState& state = m_flows[flow];
    const bool is_bulk = std::holds_alternative<Bulk>(m_scenario->flows[flow].app);
    if (state.send_buffer.WakesWriter(LoadOf(state)) && is_bulk && state.is_running)
    {
        ArmApplication(flow, m_now_ns);
    }
}

SendBufferLoad
Engine::LoadOf(const FlowState& flow) const
{
    const Scoreboard& board = flow.sender.Board();
    const cc_state& controller = flow.sender.GetController().State();
    return {.unsent_pkts = flow.written - board.Next(),
            .out_pkts = board.PacketsOut(),
            .sacked_pkts = board.SackedOut(),
            .in_flight_pkts = board.InFlight(),
            .cwnd_pkts = flow.sender.WindowPkts(),
            .pacing_Bps = controller.pacing_Bps,
            .in_recovery = flow.sender.LossState() >= CC_CA_RECOVERY};
}

/** Data for which the socket's buffer has no room is never written, as by a live source. */
void
Engine::Write(std::size_t flow, uint64_t pkts)
{
    FlowState& state = m_flows[flow];
    const uint64_t taken = state.send_buffer.IsAmple()
                               ? std::min(pkts, m_buffer_pkts - (state.written - state.sender.Board().Una()))
                               : state.send_buffer.Take(pkts, LoadOf(state));
    if (taken == 0)
    {
        return;
    }
    if (state.is_established)
    {
        state.sender.BeforeWrite(state.HasUnsent());
        if (state.send_event_ns == NEVER_NS)
        {
            ArmSend(flow, m_now_ns);
        }
    }
    state.written += taken;
}

// ---- queries -------------------------------------------------------------------------------------------

SenderState
Engine::Sender(std::size_t flow) const
{
    const FlowState& state = m_flows[flow];
    return state.is_established ? StateOf(state.sender, state.sender.GetController().Params(), m_now_ns) : SenderState{};
}

void
Engine::TraceAcks(std::size_t flow, std::size_t max_rows)
{
    m_flows.at(flow).max_trace_rows = max_rows;
}

const std::vector<AckRecord>&
Engine::AckTrace(std::size_t flow) const
{
    return m_flows.at(flow).trace;
}

Census
Engine::CountPackets(std::size_t flow) const
{
    const FlowState& state = m_flows.at(flow);
    Census census;
    census.sent_pkts = state.sender.Totals().sent_pkts;
    census.arrived_pkts = state.arrived_pkts;
    census.dropped_pkts = m_measurement.DroppedPkts(flow);
    const auto is_data_of = [flow](const auto& packet) { return packet.name.flow == flow && packet.name.IsData(); };
    for (std::size_t i = 0; i < state.access.size(); ++i)
    {
        census.in_access_pkts += is_data_of(state.access[i]);
    }
    const Ring<QueuedPacket>& queued = m_bottleneck.Queue().PacketsWith(flow);
    for (std::size_t i = 0; i < queued.size(); ++i)
    {
        census.queued_pkts += is_data_of(queued[i]);
    }
    census.queued_pkts += m_bottleneck.InService() != nullptr && is_data_of(*m_bottleneck.InService());
    for (std::size_t i = 0; i < m_link.size(); ++i)
    {
        census.on_link_pkts += is_data_of(m_link[i]);
    }
    for (std::size_t i = 0; i < m_late.size(); ++i)
    {
        census.on_link_pkts += is_data_of(m_late[i]);
    }
    return census;
}

} // namespace bbrgym
