// SPDX-License-Identifier: GPL-2.0-only
#include "engine.hpp"

#include "sender_state.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace bbrgym
{

namespace
{

constexpr uint64_t EVENTS_BETWEEN_STOP_CHECKS = 1024; // some tenths of a millisecond
constexpr int64_t MAX_TURN_NS = 10'000'000;           // so that a turn's packets stay in the caches
constexpr double SAME_BEAT_NS = 10'000;               // more than the events that are scheduled at once
constexpr std::size_t MIN_RESERVED_PKTS = 16;
constexpr std::size_t MAX_RESERVED_PKTS = 4096; // beyond it memory is allocated when needed

/** Outside the loop over events, which is to stay small. */
[[gnu::noinline]] void
ThrowIfStopped(StopCheck* stop)
{
    if (stop && stop->ShouldStop())
    {
        throw Stopped();
    }
}

/** Whether a timer is due, which is then over; one that was moved has left its old event behind. */
bool
IsDue(int64_t& event_ns, int64_t now_ns)
{
    const bool is_due = event_ns == now_ns;
    event_ns = is_due ? NEVER_NS : event_ns;
    return is_due;
}

/** Packets that a flow can have in the network, and as many again SACKed or waiting to be retransmitted. */
std::size_t
ReservedPkts(const Scenario& scenario)
{
    const double window_pkts = UsefulWindowBytes(scenario) / scenario.mss_bytes;
    return std::clamp(static_cast<std::size_t>(2 * window_pkts / static_cast<double>(scenario.flows.size())),
                      MIN_RESERVED_PKTS, MAX_RESERVED_PKTS);
}

/** Whether a packet can take as long to the bottleneck as another takes in it, at some rate of the link. */
bool
TakesServiceTime(const Flow& flow, const Scenario& scenario)
{
    const Link& link = scenario.link;
    const uint32_t packet_bytes = scenario.mss_bytes + HEADER_BYTES;
    const auto access_ns = static_cast<double>(PathDelaysOf(flow, scenario).access_ns);
    const auto takes = [&](double rate_bps) {
        const double service_ns = packet_bytes * 8e9 / rate_bps;
        return std::abs(access_ns - service_ns) <= SAME_BEAT_NS;
    };
    return takes(link.rate_bps) || std::ranges::any_of(link.changes, [&](const LinkChange& change) {
               return change.rate_bps && takes(*change.rate_bps);
           });
}

/** Whether events of two stages that are due at the same time were often scheduled at the same time, too. */
bool
HaveCommonBeat(const Scenario& scenario)
{
    const Link& link = scenario.link;
    return link.trace || !std::holds_alternative<AcksAtOnce>(link.acks) ||
           std::ranges::any_of(scenario.flows, [&](const Flow& flow) { return TakesServiceTime(flow, scenario); });
}

/** Whether flows end at times that only the receivers' stage knows: no other may be ahead of it then. */
bool
HasTransfers(const Scenario& scenario)
{
    return std::ranges::any_of(scenario.flows, [](const Flow& flow) {
        const auto* bulk = std::get_if<Bulk>(&flow.app);
        return bulk != nullptr && bulk->pkts > 0;
    });
}

} // namespace

// ---- a run ----------------------------------------------------------------------------------------------

void
Engine::Reset(std::shared_ptr<const Scenario> scenario, uint64_t seed, const WorldTables& tables)
{
    m_scenario = Drawn(std::move(scenario), seed);
    m_now_ns = 0;
    m_event_count = 0;
    const bool has_externals =
        std::ranges::any_of(m_scenario->flows, [](const Flow& flow) { return !flow.quic.empty(); });
    m_senders.Reset(m_scenario->flows.size() * (BUSY_SENDER_SOURCES + has_externals));
    m_arrivals.Reset(m_scenario->flows.size());
    const bool has_leaves = m_scenario->link.jitter || m_scenario->link.reorders ||
                            !std::holds_alternative<AcksAtOnce>(m_scenario->link.acks);
    const std::size_t further = m_scenario->further_links.size();
    m_receivers.Reset(has_leaves || further > 0 ? RECEIVERS_LEAVES + further * SOURCES_PER_HOP : 0);
    m_global_events.Reset(0);
    m_takes_turns = m_may_take_turns && further == 0 && !has_externals && !HaveCommonBeat(*m_scenario) &&
                    !HasTransfers(*m_scenario);
    m_turn_ns = m_takes_turns ? MAX_TURN_NS : 0;
    m_last_numbers.fill(0);
    m_buffer_pkts = BufferBytes(*m_scenario) / m_scenario->mss_bytes;
    m_useful_window_pkts = UsefulWindowBytes(*m_scenario) / m_scenario->mss_bytes;
    m_tunables.Reset();

    if (m_scenario->link.last_hop)
    {
        throw ScenarioError(
            "link.last_hop",
            "is given, which the twin does not have: use the ns3 world, or record the hop with `bbrgym scenario "
            "NAME record=FILE` and follow that file as link.trace_path");
    }
    m_is_network = further > 0;
    m_further_hops.resize(further);
    for (std::size_t index = 0; index <= further; ++index)
    {
        HopAt(index).Reset(*m_scenario, m_scenario->LinkAt(index), seed);
        if (further > 0 || has_externals)
        {
            HopAt(index).bottleneck.KeepDropped();
        }
    }
    if (further > 0)
    {
        m_rows.Reset(*m_scenario);
    }
    m_fair_shares.Reset(*m_scenario);
    m_ack_gate.Reset(m_scenario->link.acks);
    m_acks.clear();
    m_free_slots.clear();
    PrepareScript();
    m_own_plugins.clear();
    m_flows.resize(m_scenario->flows.size());
    m_write_times.clear();
    m_externals.clear();
    m_externals.resize(has_externals ? m_flows.size() : 0);
    for (std::size_t flow = 0; flow < m_flows.size(); ++flow)
    {
        PrepareFlow(flow, seed);
        if (!m_scenario->flows[flow].quic.empty())
        {
            OpenExternal(m_flows[flow], seed);
        }
    }
    m_tunables.WriteTo(tables.tunables);
    TakeInterval(tables);
}

void
Engine::PrepareFlow(std::size_t flow, uint64_t seed)
{
    const Flow& spec = m_scenario->flows[flow];
    const auto variant = spec.quic.empty() ? FindVariant(spec.cc) : CC_VARIANT_RENO;
    const std::string path = "flows[" + std::to_string(flow) + "]";
    if (!variant)
    {
        throw ScenarioError(path + ".cc",
                            "is '" + spec.cc + "', which the twin does not have: ns-3's own need the ns3 world");
    }
    cc_params params = ParamsOf(spec, *variant, path);
    if (const Plugin* plugin = PluginOf(*variant); plugin && plugin->of_flow)
    {
        m_own_plugins[flow] = plugin->of_flow(spec.name, cc_stream_seed(seed, ("controller." + spec.name).c_str()));
        params.plugin = m_own_plugins[flow].get();
    }
    m_tunables.AddFlow(spec.quic.empty() ? *variant : TunableTable::NO_VARIANT, params);

    // Everything is new except the memory.
    FlowState& state = m_flows[flow];
    FlowState fresh;
    std::swap(fresh.sender, state.sender);
    std::swap(fresh.receiver, state.receiver);
    fresh.access.TakeMemory(state.access);
    fresh.return_path.TakeMemory(state.return_path);
    fresh.return_path_blocks.TakeMemory(state.return_path_blocks);
    fresh.return_path_windows.TakeMemory(state.return_path_windows);
    fresh.return_path_echoes.TakeMemory(state.return_path_echoes);
    std::swap(fresh.trace, state.trace);
    state = std::move(fresh);
    state.sender.Reset(ReservedPkts(*m_scenario));
    state.sender.GetController().Init(params, cc_stream_seed(seed, ("flow." + spec.name).c_str()));
    state.has_timestamps = spec.stack.socket.timestamps;
    state.receiver.Reset(spec.stack.socket, m_scenario->mss_bytes, spec.read_bps);
    state.send_buffer.Reset(spec.stack.socket, m_scenario->mss_bytes, !state.sender.GetController().IsLossBased(),
                            m_buffer_pkts);
    state.trace.clear();
    m_write_times.emplace_back(spec, m_scenario->mss_bytes, seed);

    const PathDelays delays = PathDelaysOf(spec, *m_scenario);
    state.index = static_cast<uint32_t>(flow);
    state.first_there = spec.there.front();
    state.first_back = spec.back.empty() ? Hop::NONE : spec.back.front();
    PreparePath(flow, spec.there);
    PreparePath(flow, spec.back);
    state.access_ns = delays.access_ns;
    state.return_ns = delays.return_ns;
    m_turn_ns = std::min(m_turn_ns, delays.return_ns);
    PutGlobalEvent(spec.start_ns, SourceOf(flow, LIFE));
}

void
Engine::CopyOwnPlugins()
{
    for (auto& [flow, plugin] : m_own_plugins)
    {
        plugin = plugin->copied();
        CcController& controller = m_flows[flow].sender.GetController();
        cc_params params = controller.Params();
        params.plugin = plugin.get();
        controller.SetParams(params);
        m_tunables.SetParams(flow, params);
    }
}

/** Each hop leads to the next one. */
void
Engine::PreparePath(std::size_t flow, const std::vector<uint32_t>& path)
{
    for (std::size_t i = 1; i < path.size(); ++i)
    {
        HopAt(path[i - 1]).next[flow] = path[i];
    }
}

/** The links' changes and the warm-up's end, by time; at the same time the warm-up ends first. */
void
Engine::PrepareScript()
{
    m_script.assign(1, {m_scenario->warmup_ns, 0, nullptr});
    for (std::size_t index = 0; index <= m_scenario->further_links.size(); ++index)
    {
        for (const LinkChange& change : m_scenario->LinkAt(index).changes)
        {
            m_script.push_back({change.at_ns, index, &change});
        }
    }
    std::ranges::stable_sort(m_script, {}, &Moment::time_ns);
    m_script_at = 0;
    m_script_number = Order(GLOBAL, SCRIPT) >> Event::SOURCE_BITS;
    m_last_numbers[m_takes_turns ? std::size_t{GLOBAL} : 0] += m_script.size();
    PutNextOfScript();
}

/** In the order of events that were all scheduled at the start: before others of their time. */
void
Engine::PutNextOfScript()
{
    m_global_events.AddSeldom(
        {m_script[m_script_at].time_ns, (m_script_number + m_script_at) << Event::SOURCE_BITS | SCRIPT});
}

void
Engine::RunScript()
{
    const Moment& moment = m_script[m_script_at++];
    AccrueFairShares();
    if (moment.change == nullptr)
    {
        AtEachHop([this](Hop& hop) { hop.measurement.WarmedUp(View(*this, hop)); });
    }
    else if (Hop& hop = HopAt(moment.link); hop.bottleneck.Change(*moment.change, m_now_ns, hop.measurement))
    {
        NumberService(moment.link);
    }
    if (m_script_at < m_script.size())
    {
        PutNextOfScript();
    }
}

void
Engine::Advance(double duration_s, const WorldTables& tables, StopCheck* stop)
{
    const int64_t step_ns = StepNs(duration_s, m_scenario->duration_ns - m_now_ns);
    for (const auto& [flow, params] : m_tunables.Changes(tables.tunables, *m_scenario))
    {
        m_flows[flow].sender.SetParams(params, m_now_ns);
    }
    RunUntil(m_now_ns + step_ns, stop);
    TakeInterval(tables);
}

void
Engine::TakeInterval(const WorldTables& tables)
{
    if (!IsNetwork())
    {
        m_first.measurement.TakeInterval(View(*this, m_first), tables.flow_stats, tables.link_stats);
        BlankExternal(tables.flow_stats, false);
        return;
    }
    const auto take = [this](std::size_t index, std::span<double> flow_rows, std::span<double> link_row) {
        Hop& hop = HopAt(index);
        hop.measurement.TakeInterval(View(*this, hop), flow_rows, link_row);
    };
    m_rows.TakeInterval(*m_scenario, m_fair_shares, take, tables.flow_stats, tables.link_stats);
    BlankExternal(tables.flow_stats, false);
}

/** Call before who is active changes, or a link. */
void
Engine::AccrueFairShares()
{
    if (m_fair_shares.IsOn()) [[unlikely]]
    {
        m_fair_shares.Accrue([this](std::size_t link) { return CapacityBytes(link); });
    }
}

void
Engine::SetActive(const FlowState& flow, bool is_active)
{
    if (m_fair_shares.IsOn()) [[unlikely]]
    {
        AccrueFairShares();
        m_fair_shares.SetActive(flow.index, is_active);
    }
}

void
Engine::Summarise(std::span<double> flow_table, std::span<double> link_row) const
{
    if (!IsNetwork())
    {
        m_first.measurement.Summarise(View(*this, m_first), flow_table, link_row);
        BlankExternal(flow_table, true);
        return;
    }
    FairShares fair_shares = m_fair_shares;
    if (fair_shares.IsOn())
    {
        fair_shares.Accrue([this](std::size_t link) { return CapacityBytes(link); });
    }
    const auto summarise = [&](std::size_t index, std::span<double> flow_rows, std::span<double> row) {
        const Hop& hop = HopAt(index);
        hop.measurement.Summarise(View(*this, hop, fair_shares), flow_rows, row);
    };
    SummariseNetwork(*m_scenario, summarise, flow_table, link_row);
    BlankExternal(flow_table, true);
}

// ---- events ---------------------------------------------------------------------------------------------

/** An interval holds all events of its last instant, so that the size of the steps changes nothing. */
[[gnu::noinline]] void // within Advance, compilers spend 1 % more instructions on it
Engine::RunUntil(int64_t end_ns, StopCheck* stop)
{
    for (;;)
    {
        const Event global = m_global_events.First();
        RunBefore(std::min(global, Event{end_ns + 1, 0}), stop);
        if (global.time_ns > end_ns)
        {
            break;
        }
        m_now_ns = global.time_ns;
        ++m_event_count;
        m_global_events.RemoveSeldom();
        global.Source() == SCRIPT ? RunScript() : StartOrStop(FlowOf(global.Source()));
    }
    m_now_ns = end_ns;
}

/** Runs all stages up to an event; nothing before it is left. */
void
Engine::RunBefore(const Event& bound, StopCheck* stop)
{
    uint64_t check_at = m_event_count + EVENTS_BETWEEN_STOP_CHECKS;
    for (;;)
    {
        if (HasExternals()) [[unlikely]]
        {
            FreeDropped(); // before anything is sent
        }
        const Event first =
            std::min({m_senders.First(), m_arrivals.First(), NextService(), NextOnLink(), m_receivers.First()});
        if (!(first < bound))
        {
            return;
        }
        const Event turn_end = std::max(Event{first.time_ns + m_turn_ns, 0}, Event{first.time_ns, first.order + 1});
        const Event end = std::min(turn_end, bound);
        RunSenders(end);
        RunBottleneck(end);
        RunReceivers(end);
        if (m_event_count >= check_at) [[unlikely]]
        {
            check_at = m_event_count + EVENTS_BETWEEN_STOP_CHECKS;
            ThrowIfStopped(stop);
        }
    }
}

void
Engine::RunSenders(const Event& bound)
{
    while (m_senders.First() < bound)
    {
        const Event event = m_senders.First();
        Begin(event);
        HandleSender(event.Source());
    }
}

void
Engine::RunBottleneck(const Event& bound)
{
    for (;;)
    {
        const Event arrival = m_arrivals.First();
        const Event end = std::min(arrival, bound);
        while (NextService() < end)
        {
            Begin(NextService());
            Serve(First{});
        }
        if (!(arrival < bound))
        {
            return;
        }
        FlowState& flow = FlowOf(arrival.Source());
        if (flow.first_there == First{}) [[likely]]
        {
            ReachQueue(First{}, flow, arrival, bound);
        }
        else
        {
            ReachQueue(flow.first_there, flow, arrival, bound);
        }
    }
}

void
Engine::RunReceivers(const Event& bound)
{
    for (;;)
    {
        const Event arrival = NextOnLink();
        const Event other = m_receivers.First();
        if (arrival < std::min(other, bound)) [[likely]]
        {
            Begin(arrival);
            const QueuedPacket packet = m_first.link.front().packet;
            m_first.link.pop_front();
            LeaveLink(m_first, packet);
        }
        else if (other < bound)
        {
            Begin(other);
            HandleReceiver(other);
        }
        else
        {
            return;
        }
    }
}

void
Engine::HandleReceiver(const Event& event)
{
    const uint32_t source = event.Source();
    if (source == LATE)
    {
        const QueuedPacket packet = m_first.late.front().packet;
        m_first.late.pop_front();
        SchedulePipe(m_first.late, m_receivers, LATE_LEAF);
        LeaveLink(m_first, packet);
    }
    else if (source == GATE)
    {
        LeaveGate();
    }
    else if (source < FIRST_FLOW)
    {
        HandleFurtherHop(source);
    }
    else if (KindOf(source) == ACCEPT)
    {
        m_receivers.RemoveSeldom();
        SendSynAck(FlowOf(source));
    }
    else
    {
        AnswerDelayed(event);
    }
}

void
Engine::HandleFurtherHop(uint32_t source)
{
    const std::size_t index = 1 + (source - FIRST_HOP) / SOURCES_PER_HOP;
    Hop& hop = HopAt(index);
    const auto kind = static_cast<Source>((source - FIRST_HOP) % SOURCES_PER_HOP);
    if (kind == SERVER)
    {
        Serve(index);
        return;
    }
    Ring<PacketOnLink>& pipe = kind == LINK ? hop.link : hop.late;
    const QueuedPacket packet = pipe.front().packet;
    pipe.pop_front();
    SchedulePipe(pipe, m_receivers, LeafOfHop(index, kind));
    LeaveLink(hop, packet);
}

void
Engine::HandleSender(uint32_t source)
{
    FlowState& flow = FlowOf(source);
    const FlowSource kind = KindOf(source);
    if (kind == SEND)
    {
        flow.send_event_ns = NEVER_NS;
        TrySend(flow);
        if (flow.send_event_ns == NEVER_NS)
        {
            m_senders.Clear(LeafOf(flow.index, SEND));
        }
        return;
    }
    if (kind == RETURN_PATH)
    {
        ReachSender(flow);
        return;
    }
    if (IsExternal(flow)) [[unlikely]]
    {
        HandleExternal(flow, kind);
        return;
    }
    m_senders.RemoveSeldom();
    if (kind == TIMER && IsDue(flow.timer_event_ns, m_now_ns))
    {
        OnTimer(flow);
    }
    else if (kind == APP && IsDue(flow.app_event_ns, m_now_ns))
    {
        RunApplication(flow);
    }
    else if (kind == SYN_TIMER && IsDue(flow.syn_event_ns, m_now_ns))
    {
        SendSyn(flow);
    }
}

// ---- the network ----------------------------------------------------------------------------------------

/** A burst arrives together, as far as nothing else comes between its packets. */
template <class Index>
void
Engine::ReachQueue(Index index, FlowState& flow, Event arrival, const Event& bound)
{
    bool is_next;
    do
    {
        Begin(arrival);
        TrainInPipe& train = flow.access.front();
        const PacketName name = train.name;
        const bool is_alone = std::min(NextService().time_ns, bound.time_ns) > m_now_ns;
        Hop& hop = HopAt(index);
        const uint64_t pkts = is_alone && hop.bottleneck.TakesTrains() ? train.pkts : 1;
        const uint64_t next_order = arrival.order + (pkts << Event::SOURCE_BITS);
        if (pkts == train.pkts)
        {
            flow.access.pop_front();
        }
        else
        {
            train = {m_now_ns, next_order, name.Ahead(1), train.pkts - 1};
        }
        if (pkts > 1)
        {
            m_event_count += pkts - 1;
            const auto at = [&](uint64_t i) { return QueuedPacket{m_now_ns, name.Ahead(i)}; };
            hop.bottleneck.ArriveTogether(pkts, at, m_now_ns, hop.measurement);
        }
        else
        {
            EnterQueue(index, name);
        }
        is_next = !flow.access.empty() && flow.access.front().order == next_order &&
                  flow.access.front().arrives_ns == m_now_ns;
        arrival.order = next_order;
    } while (is_next && arrival < std::min(NextService(), bound));
    SchedulePipe(flow.access, m_arrivals, flow.index);
}

template <class Index>
inline void
Engine::EnterQueue(Index index, PacketName name)
{
    Hop& hop = HopAt(index);
    if (hop.bottleneck.Arrive({m_now_ns, name}, m_now_ns, hop.measurement))
    {
        NumberService(index);
    }
}

template <class Index>
inline void
Engine::Serve(Index index)
{
    Hop& hop = HopAt(index);
    hop.bottleneck.Serve(
        m_now_ns, hop.measurement,
        [this, index](const QueuedPacket& packet, LinkDelay::Arrival arrival) { PutOnLink(index, packet, arrival); });
    NumberService(index);
}

/** The event of the first one is not in a queue of events. */
template <class Index>
inline void
Engine::NumberService(Index index)
{
    Hop& hop = HopAt(index);
    hop.server_order = Order(BOTTLENECK, SourceOfHop(index, SERVER));
    if (index > 0)
    {
        m_receivers.Set(LeafOfHop(index, SERVER), {hop.bottleneck.NextServiceNs(), hop.server_order});
    }
}

template <class Index>
inline void
Engine::PutOnLink(Index index, const QueuedPacket& packet, LinkDelay::Arrival arrival)
{
    Hop& hop = HopAt(index);
    if (arrival.is_apart) [[unlikely]]
    {
        hop.late.push_back({arrival.at_ns, Order(BOTTLENECK, SourceOfHop(index, LATE)), packet});
        for (std::size_t i = hop.late.size() - 1; i > 0 && hop.late[i].arrives_ns < hop.late[i - 1].arrives_ns; --i)
        {
            std::swap(hop.late[i], hop.late[i - 1]); // some of a path before arrive later
        }
        SchedulePipe(hop.late, m_receivers, LeafOfHop(index, LATE));
        return;
    }
    hop.link.push_back({arrival.at_ns, Order(BOTTLENECK, SourceOfHop(index, LINK)), packet});
    if (index > 0)
    {
        SchedulePipe(hop.link, m_receivers, LeafOfHop(index, LINK));
    }
}

inline void
Engine::LeaveLink(const Hop& hop, const QueuedPacket& packet)
{
    if (IsNetwork()) [[unlikely]]
    {
        GoOn(hop, packet);
        return;
    }
    ReachReceiver(packet);
}

/** To the next queue, or to the path's end: a receiver or, behind the rest of its way, a sender. */
void
Engine::GoOn(const Hop& hop, const QueuedPacket& packet)
{
    const PacketName name = packet.name;
    FlowState& flow = m_flows[name.Flow()];
    if (const uint32_t next = hop.next[name.Flow()]; next != Hop::NONE)
    {
        const bool needs_slot = flow.has_timestamps && name.IsData() && !name.HasSlot();
        EnterQueue(next,
                   needs_slot ? name.InSlot(PutInSlot({{name.Seqno(), false, 0}, {{}, 0, packet.queued_ns}})) : name);
    }
    else if (name.IsExternal())
    {
        name.HasPayload() ? ReachReceiver(packet)
                          : ReturnDirectly(flow, AckName(name.Slot(), false, AckName::EXTERNAL_BLOCKS));
    }
    else if (name.IsAck())
    {
        const AckInSlot& ack = m_acks[name.Slot()];
        const bool is_syn_ack = ack.name.BlockCount() == AckName::SYN_ACK_BLOCKS;
        if (!is_syn_ack)
        {
            const AckContent& content = ack.content;
            PutInPipes(flow, std::span(content.blocks.data(), ack.name.BlockCount()), content.window_end,
                       content.echo_ms);
        }
        ReturnDirectly(flow, ack.name);
        m_free_slots.push_back(static_cast<uint32_t>(name.Slot()));
    }
    else if (name.HasSlot())
    {
        const AckInSlot data = m_acks[name.Slot()];
        m_free_slots.push_back(static_cast<uint32_t>(name.Slot()));
        ReachReceiver({data.content.echo_ms, name.OutOfSlot(data.name.Una())});
    }
    else
    {
        ReachReceiver(packet);
    }
}

/** Those of what hops have dropped. */
void
Engine::FreeDropped()
{
    AtEachHop([this](Hop& hop) {
        hop.bottleneck.TakeDropped([this](const QueuedPacket& packet) {
            if (packet.name.HasSlot())
            {
                m_free_slots.push_back(static_cast<uint32_t>(packet.name.Slot()));
            }
            if (packet.name.IsExternal())
            {
                DropExternal(packet.name);
            }
        });
    });
}

void
Engine::ReachReceiver(const QueuedPacket& queued)
{
    const PacketName packet = queued.name;
    FlowState& flow = m_flows[packet.Flow()];
    if (Log().IsOn()) [[unlikely]]
    {
        LogAt(PacketEvent::arrived, packet);
    }
    if (!packet.IsData() || flow.arrived_pkts == 0) [[unlikely]]
    {
        if (packet.IsExternal())
        {
            DeliverExternal(flow, BBRGYM_RECEIVER, packet.Slot());
            return;
        }
        if (!flow.is_accepted && flow.arrived_pkts == 0)
        {
            OpenConnection(flow, packet);
        }
        if (!packet.IsData())
        {
            flow.is_accepted |= packet.Seqno() == HANDSHAKE_ACK;
            return;
        }
    }
    ++flow.arrived_pkts;
    if (flow.has_timestamps &&
        flow.receiver.RefusesOld(packet.Seqno(), TimestampMs(queued.queued_ns - flow.access_ns), m_now_ns)) [[unlikely]]
    {
        SendAck(flow);
        return;
    }
    if (flow.receiver.AnswersBefore(packet.Ecn())) [[unlikely]]
    {
        SendAck(flow);
    }
    const TcpReceiver::Arrival arrival = flow.receiver.OnSegment(packet.Seqno(), m_now_ns, packet.Ecn());
    if (arrival.readable_pkts > 0)
    {
        const uint64_t readable_bytes = uint64_t{arrival.readable_pkts} * m_scenario->mss_bytes;
        NoteReadable(flow, readable_bytes);
    }
    if (arrival.answer_at_once)
    {
        SendAck(flow);
    }
    else
    {
        AwaitDelayedAck(flow);
    }
}

inline void
Engine::AwaitDelayedAck(FlowState& flow)
{
    if (const int64_t deadline_ns = flow.receiver.DelayedAckDeadlineNs(); deadline_ns < flow.delayed_ack_until_ns)
    {
        flow.delayed_ack_until_ns = deadline_ns;
        flow.delayed_ack_order = Order(RECEIVERS, SourceOf(flow.index, DELAYED_ACK));
        ArmDelayedAck(flow);
    }
}

/** Of a slow reader. */
void
Engine::AwaitWindowUpdate(FlowState& flow)
{
    flow.delayed_ack_until_ns = NEVER_NS;
    AwaitDelayedAck(flow);
}

/** An event that is already scheduled and does not come later is then moved to the new deadline. */
void
Engine::ArmDelayedAck(FlowState& flow)
{
    if (flow.delayed_ack_until_ns < flow.delayed_ack_event_ns)
    {
        flow.delayed_ack_event_ns = flow.delayed_ack_until_ns;
        m_receivers.AddSeldom({flow.delayed_ack_event_ns, flow.delayed_ack_order});
    }
}

void
Engine::AnswerDelayed(const Event& event)
{
    m_receivers.RemoveSeldom();
    FlowState& flow = FlowOf(event.Source());
    if (!IsDue(flow.delayed_ack_event_ns, m_now_ns))
    {
        return;
    }
    if (flow.delayed_ack_until_ns == m_now_ns && event.order == flow.delayed_ack_order)
    {
        if (flow.receiver.DelayedAckDeadlineNs() > m_now_ns) [[unlikely]] // more has arrived that is not read
        {
            AwaitWindowUpdate(flow);
            return;
        }
        flow.receiver.OnTimer(m_now_ns);
        SendAck(flow);
    }
    else if (flow.delayed_ack_until_ns != NEVER_NS)
    {
        ArmDelayedAck(flow);
    }
}

void
Engine::SendAck(FlowState& flow)
{
    flow.delayed_ack_until_ns = NEVER_NS;
    std::array<SeqnoRange, MAX_SACK_BLOCKS> blocks;
    const std::size_t count = flow.receiver.Acknowledge(blocks);
    const std::span said(blocks.data(), count);
    const bool is_ample = flow.receiver.Window().IsAmple();
    const uint64_t window_end = is_ample ? 0 : flow.receiver.Announce(m_now_ns);
    const bool ece = flow.receiver.Echo();
    if (Log().IsOn()) [[unlikely]]
    {
        LogAck(PacketEvent::ack_sent, flow.index, flow.receiver.Next(), said,
               is_ample ? m_buffer_pkts : window_end - flow.receiver.Next(), ece ? packet_flag::ece : 0);
    }
    HeldAck ack{flow.index, HeldAck::IN_PIPES, AckName(flow.receiver.Next(), ece, count)};
    if (flow.first_back == Hop::NONE) [[likely]]
    {
        PutInPipes(flow, said, window_end, flow.receiver.RecentMs());
    }
    else
    {
        ack.slot = PutInSlot({ack.name, {blocks, window_end, flow.receiver.RecentMs()}});
    }
    SendBack(flow, ack);
    if (flow.receiver.ReadsSlowly()) [[unlikely]]
    {
        AwaitWindowUpdate(flow);
    }
}

uint32_t
Engine::PutInSlot(const AckInSlot& ack)
{
    if (m_free_slots.empty())
    {
        FreeDropped();
    }
    if (m_free_slots.empty())
    {
        m_acks.push_back(ack);
        return static_cast<uint32_t>(m_acks.size() - 1);
    }
    const uint32_t slot = m_free_slots.back();
    m_free_slots.pop_back();
    m_acks[slot] = ack;
    return slot;
}

inline void
Engine::PutInPipes(FlowState& flow, std::span<const SeqnoRange> blocks, uint64_t window_end, int64_t echo_ms)
{
    for (const SeqnoRange& block : blocks)
    {
        flow.return_path_blocks.push_back(block);
    }
    if (!flow.receiver.Window().IsAmple())
    {
        flow.return_path_windows.push_back(window_end);
    }
    if (flow.has_timestamps) [[unlikely]]
    {
        flow.return_path_echoes.push_back(echo_ms);
    }
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
        m_receivers.Set(GATE_LEAF, {m_ack_gate.DeadlineNs(), Order(RECEIVERS, GATE)});
    }
}

void
Engine::LeaveGate()
{
    m_receivers.Clear(GATE_LEAF);
    m_ack_gate.Release([this](const HeldAck& ack) { PutOnReturnPath(m_flows[ack.flow], ack); });
}

void
Engine::QueueAck(const FlowState& flow, HeldAck ack)
{
    const std::size_t blocks = ack.name.BlockCount();
    if (blocks == AckName::EXTERNAL_BLOCKS)
    {
        const auto ip_bytes = static_cast<uint64_t>(m_acks[ack.slot].content.echo_ms);
        EnterQueue(flow.first_back, PacketName::OfExternal(ack.slot, ip_bytes, flow.index, true));
        return;
    }
    const uint32_t bytes = blocks == AckName::SYN_ACK_BLOCKS ? SYN_BYTES : AckBytes(blocks, flow.has_timestamps);
    EnterQueue(flow.first_back, PacketName::OfAck(ack.slot, bytes, flow.index));
}

void
Engine::ReachSender(FlowState& flow)
{
    const AckName ack = flow.return_path.front().name;
    flow.return_path.pop_front();
    SchedulePipe(flow.return_path, m_senders, LeafOf(flow.index, RETURN_PATH));
    const std::size_t block_count = ack.BlockCount();
    if (block_count >= AckName::EXTERNAL_BLOCKS)
    {
        if (block_count == AckName::EXTERNAL_BLOCKS)
        {
            DeliverExternal(flow, BBRGYM_SENDER, ack.Una());
            return;
        }
        if (Log().IsOn())
        {
            LogAck(PacketEvent::ack_arrived, flow.index, 0, {}, FirstWindowPkts(flow), packet_flag::syn);
        }
        Establish(flow);
        return;
    }
    std::array<SeqnoRange, MAX_SACK_BLOCKS> blocks;
    for (std::size_t i = 0; i < block_count; ++i)
    {
        blocks[i] = flow.return_path_blocks.front();
        flow.return_path_blocks.pop_front();
    }
    uint64_t window_pkts = m_buffer_pkts;
    if (!flow.receiver.Window().IsAmple())
    {
        window_pkts = flow.return_path_windows.front() - ack.Una();
        flow.return_path_windows.pop_front();
    }
    OnAckArrived(flow, ack, std::span(blocks.data(), block_count), window_pkts);
}

// ---- the sender -----------------------------------------------------------------------------------------

void
Engine::OnAckArrived(FlowState& flow, AckName ack, std::span<const SeqnoRange> blocks, uint64_t window_pkts)
{
    flow.window_pkts = window_pkts;
    if (flow.has_timestamps) [[unlikely]]
    {
        flow.sender.OnTimestampEcho(flow.return_path_echoes.front());
        flow.return_path_echoes.pop_front();
    }
    const cc_sample& sample = flow.sender.OnAck(ack.Una(), blocks, m_now_ns, ack.Ece());
    if (sample.rtt_us >= 0)
    {
        OnPath(flow,
               [&flow, rtt_us = sample.rtt_us](Hop& hop) { hop.measurement.RttSample(flow.index, rtt_us * 1000); });
    }
    if (flow.is_traced) [[unlikely]]
    {
        LogDecision(flow, ack, blocks, sample);
    }
    TrySend(flow);
    if (flow.send_buffer.HasWaitingWriter()) [[unlikely]]
    {
        WakeWriter(flow);
    }
}

void
Engine::TrySend(FlowState& flow)
{
    const uint64_t sent_before = flow.sender.Totals().sent_pkts;
    for (;;)
    {
        const ToSend next = flow.sender.Next(NewPkts(flow), m_now_ns);
        if (next.kind == ToSend::Kind::NOTHING)
        {
            break;
        }
        if (next.kind == ToSend::Kind::NEW)
        {
            SendBurst(flow);
        }
        else
        {
            Emit(flow, next.seqno);
            OnPath(flow, [&flow](Hop& hop) { hop.measurement.Sent(flow.index, true); });
            flow.sender.OnRetransmitted(next.seqno, m_scenario->mss_bytes, m_now_ns);
        }
    }
    const bool has_sent = flow.sender.Totals().sent_pkts > sent_before;
    flow.sender.ValidateCwnd(flow.HasUnsent(), has_sent, flow.is_running && flow.send_buffer.HasWaitingWriter(),
                             m_now_ns);
    if (flow.sender.PacingDeadlineNs() != NEVER_NS)
    {
        ArmSend(flow, flow.sender.PacingDeadlineNs());
    }
    ArmTimer(flow);
}

/** A burst leaves as one train, if nothing happens between its packets and nobody logs them. */
inline void
Engine::SendBurst(FlowState& flow)
{
    const uint32_t pkts = flow.sender.LeftInBurstPkts();
    if (flow.sender.SendsAlike() && flow.sender.Board().Next() + pkts < flow.refills_from && !Log().IsOn()) [[likely]]
    {
        SendNew(flow, pkts);
        return;
    }
    do
    {
        SendNew(flow);
    } while (flow.sender.IsInBurst());
}

inline void
Engine::SendNew(FlowState& flow, uint32_t pkts)
{
    Emit(flow, flow.sender.Board().Next(), flow.sender.EcnBitsToSend(), pkts);
    OnPath(flow, [&flow, pkts](Hop& hop) { hop.measurement.Sent(flow.index, false, pkts); });
    flow.sender.OnNewSent(m_scenario->mss_bytes, false, m_now_ns, pkts);
    if (flow.sender.Board().Next() >= flow.refills_from)
    {
        ArmApplication(flow, m_now_ns);
    }
}

void
Engine::OnTimer(FlowState& flow)
{
    if (m_now_ns < flow.sender.TimerDeadlineNs())
    {
        ArmTimer(flow); // ACKs have moved the deadline
        return;
    }
    const bool is_probe_due = flow.sender.OnTimer(m_now_ns);
    if (flow.is_traced)
    {
        LogLosses(flow);
    }
    if (is_probe_due)
    {
        const bool is_new = NewPkts(flow) > 0;
        if (is_new)
        {
            SendNew(flow);
        }
        else
        {
            Emit(flow, flow.sender.Board().Next() - 1);
            OnPath(flow, [&flow](Hop& hop) { hop.measurement.Sent(flow.index, true); });
        }
        flow.sender.OnProbeSent(!is_new, m_scenario->mss_bytes, m_now_ns);
    }
    TrySend(flow);
}

/** New segments for which application and receiver window allow. */
uint64_t
Engine::NewPkts(const FlowState& flow) const
{
    const Scoreboard& board = flow.sender.Board();
    const uint64_t room_pkts = flow.window_pkts > board.PacketsOut() ? flow.window_pkts - board.PacketsOut() : 0;
    return std::min(flow.written - board.Next(), room_pkts);
}

/** The time is earlier than before only after a timeout, which restarts pacing. */
void
Engine::ArmSend(FlowState& flow, int64_t time_ns)
{
    if (time_ns < flow.send_event_ns)
    {
        flow.send_event_ns = time_ns;
        m_senders.Move(LeafOf(flow.index, SEND), {time_ns, Order(SENDERS, SourceOf(flow.index, SEND))});
    }
}

/** Moves the timers' event only if it would come too late. */
void
Engine::ArmTimer(FlowState& flow)
{
    const int64_t deadline_ns = flow.sender.TimerDeadlineNs();
    if (deadline_ns < flow.timer_event_ns)
    {
        flow.timer_event_ns = deadline_ns;
        PutTimer(flow.index, TIMER, deadline_ns);
    }
}

// ---- queries -------------------------------------------------------------------------------------------

SenderState
Engine::Sender(std::size_t flow) const
{
    const FlowState& state = m_flows[flow];
    if (IsExternal(state)) [[unlikely]]
    {
        return StateOfExternal(flow);
    }
    return state.is_established ? StateOf(state.sender, m_now_ns) : SenderState{};
}

PacketCounts
Engine::CountPackets(std::size_t flow) const
{
    const FlowState& state = m_flows.at(flow);
    PacketCounts counts;
    counts.sent_pkts = state.sender.Totals().sent_pkts;
    counts.arrived_pkts = state.arrived_pkts;
    for (std::size_t i = 0; i < state.access.size(); ++i)
    {
        counts.in_access_pkts += state.access[i].name.IsData() ? state.access[i].pkts : 0;
    }
    for (const uint32_t index : m_scenario->flows[flow].there)
    {
        const LinkCounts at_link = CountAtLink(flow, index);
        counts.dropped_pkts += at_link.dropped_pkts;
        counts.queued_pkts += at_link.queued_pkts;
        counts.on_link_pkts += at_link.on_link_pkts;
    }
    return counts;
}

LinkCounts
Engine::CountAtLink(std::size_t flow, std::size_t link) const
{
    const auto is_counted = [flow](const PacketName& name) { return name.Flow() == flow && name.IsData(); };
    const auto count = [&](const auto& ring, auto name_of) {
        uint64_t pkts = 0;
        for (std::size_t i = 0; i < ring.size(); ++i)
        {
            pkts += is_counted(name_of(ring[i]));
        }
        return pkts;
    };
    const auto carried = [](const PacketOnLink& packet) { return packet.packet.name; };
    const Hop& hop = HopAt(link);
    const QueuedPacket* in_service = hop.bottleneck.InService();
    const uint64_t waiting =
        count(hop.bottleneck.Queue().PacketsWith(flow), [](const auto& packet) { return packet.name; });
    return {waiting + (in_service != nullptr && is_counted(in_service->name)),
            count(hop.link, carried) + count(hop.late, carried), hop.measurement.DroppedPkts(flow)};
}

SlotCounts
Engine::CountSlots() const
{
    SlotCounts counts{m_acks.size() - m_free_slots.size(), 0};
    m_ack_gate.ForEach([&](const HeldAck& ack) { counts.found += ack.slot != HeldAck::IN_PIPES; });
    for (std::size_t index = 0; index <= m_further_hops.size(); ++index)
    {
        const Hop& hop = HopAt(index);
        const QueuedPacket* in_service = hop.bottleneck.InService();
        counts.found += in_service != nullptr && in_service->name.HasSlot();
        counts.found += static_cast<uint64_t>(std::ranges::count_if(
            hop.bottleneck.Dropped(), [](const QueuedPacket& packet) { return packet.name.HasSlot(); }));
        for (const FlowState& flow : m_flows)
        {
            const Ring<QueuedPacket>& packets = hop.bottleneck.Queue().PacketsWith(flow.index);
            for (std::size_t i = 0; i < packets.size(); ++i)
            {
                counts.found += packets[i].name.HasSlot() && packets[i].Flow() == flow.index;
            }
        }
        for (const Ring<PacketOnLink>* pipe : {&hop.link, &hop.late})
        {
            for (std::size_t i = 0; i < pipe->size(); ++i)
            {
                counts.found += (*pipe)[i].packet.name.HasSlot();
            }
        }
    }
    return counts;
}

Outlook
Engine::OutlookOf(std::size_t flow) const
{
    const FlowState& state = m_flows.at(flow);
    const auto* bulk = std::get_if<Bulk>(&m_scenario->flows[flow].app);
    return {.is_established = state.is_established,
            .is_writing = bulk != nullptr && state.is_running && (bulk->pkts == 0 || state.written < bulk->pkts),
            .is_writer_due = state.app_event_ns == m_now_ns,
            .waits_for_room = state.send_buffer.HasWaitingWriter(),
            .buffer_pkts = state.send_buffer.IsAmple() ? m_buffer_pkts : 0,
            .unsent_pkts = state.written - state.sender.Board().Next(),
            .out_pkts = state.sender.Board().PacketsOut(),
            .window_pkts = state.window_pkts,
            .syn_ns = state.syn_event_ns,
            .send_ns = state.send_event_ns,
            .paced_ns = state.sender.PacingDeadlineNs(),
            .timer_ns = state.timer_event_ns,
            .rto_ns = state.sender.RtoDeadlineNs()};
}

} // namespace bbrgym
