// SPDX-License-Identifier: GPL-2.0-only
//
// One run of a scenario, packet by packet:
//
//   application -> sender -> access delay -> [ bottleneck ] -> link delay -> receiver
//                     ^------------------ return delay -----------------------'
//
// Delays are pipes that keep order; only bottlenecks queue or drop. A bottleneck and the delay behind it are a hop. A
// path has one hop for data and none for ACKs; in a scenario of several links, more of either.
//
// Packets go round in one direction, and what a receiver does reaches a sender only after the return path. So time is
// cut into turns, each as long as the shortest return path, and in a turn three stages follow one another instead of
// taking every event by time: first all senders run to its end, then the bottleneck, then the receivers. Each stage has
// its own small queue of events, and stays for many events with the same code and data. What looks at several stages,
// or changes them, is a global event: a turn ends there.
//
// Events at the same time happen in the order in which they were scheduled, which those of two stages tell by the times
// at which they were. Where clocks beat alike, these are often the same too (HaveCommonBeat): there a turn is one
// event, and all are numbered in one series. The same holds with several links: all but the first belong to the
// receivers' stage, then.
//
// An Engine is a value: a copy continues exactly as the original would. After a scenario's busiest moment it allocates
// no more memory, also after a Reset.
//
// Not modelled: connection tear-down (nothing leaves after the last data segment), segments that are not full
// (applications write whole ones), probes of a closed window, a timer of the SYN-ACK (a lost one is
// sent again with the next SYN), and the omissions that sender.hpp and receiver.hpp list.
#ifndef BBRGYM_TWIN_ENGINE_HPP
#define BBRGYM_TWIN_ENGINE_HPP

#include "event_queue.hpp"
#include "external_flow.hpp"
#include "flow.hpp"

#include "ack_gate.hpp"
#include "hop.hpp"
#include "measurement.hpp"
#include "path_rows.hpp"
#include "stop.hpp"
#include "tables.hpp"
#include "tunable_table.hpp"
#include "write_times.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

namespace bbrgym
{

/** What is on its way through queues: the slots in use, and the packets somewhere that have one. */
struct SlotCounts
{
    uint64_t used = 0;
    uint64_t found = 0;
};

/** The data packets of a flow at a link. */
struct LinkCounts
{
    uint64_t queued_pkts = 0; ///< the one in transmission included
    uint64_t on_link_pkts = 0;
    uint64_t dropped_pkts = 0; ///< by the queue or at random
};

/** The whereabouts of all data packets that a flow has sent. */
struct PacketCounts
{
    uint64_t sent_pkts = 0;
    uint64_t in_access_pkts = 0;
    uint64_t queued_pkts = 0; ///< the one in transmission included
    uint64_t on_link_pkts = 0;
    uint64_t arrived_pkts = 0; ///< duplicates included
    uint64_t dropped_pkts = 0; ///< by the queue or at random
};

/** The work that a flow has, and when it goes on though nothing arrives. */
struct Outlook
{
    bool is_established = false;
    bool is_writing = false;     ///< bulk that is not written to its end
    bool is_writer_due = false;  ///< woken at this instant
    bool waits_for_room = false; ///< its writer, in the send buffer
    uint64_t buffer_pkts = 0;    ///< of an ample send buffer; 0: it is another
    uint64_t unsent_pkts = 0;
    uint64_t out_pkts = 0;    ///< not cumulatively acknowledged
    uint64_t window_pkts = 0; ///< the receiver's
    int64_t syn_ns = NEVER_NS;
    int64_t send_ns = NEVER_NS;  ///< the event, which may come before pacing's deadline
    int64_t paced_ns = NEVER_NS; ///< that deadline; NEVER_NS: pacing holds nothing back
    int64_t timer_ns = NEVER_NS; ///< the event, which may come before the deadline
    int64_t rto_ns = NEVER_NS;
};

class Engine
{
  public:
    /** Whether stages take turns where they can, from the next Reset on; the results are equal. Default: true. */
    void TakeTurns(bool may_take_turns) { m_may_take_turns = may_take_turns; }

    /** Begins a run and fills the tables. ScenarioError: a flow has a controller, or the link a hop, that this world
     * does not have. */
    void Reset(std::shared_ptr<const Scenario> scenario, uint64_t seed, const WorldTables& tables);

    /**
     * Takes over changed tunables, runs for so long, at most to the scenario's end, and measures that interval.
     * Stopped: `stop` said so; the engine must be reset.
     */
    void Advance(double duration_s, const WorldTables& tables, StopCheck* stop = nullptr);
    bool Done() const { return m_now_ns >= m_scenario->duration_ns; }
    void Summarise(std::span<double> flow_table, std::span<double> link_row) const;

    /** Logs all packets and decisions from now on; std::invalid_argument: the run has begun. */
    void TracePackets();
    PacketLog& Log() { return m_first.measurement.Log(); }
    /** std::invalid_argument: the flow is an external one. */
    void TraceAcks(std::size_t flow, std::size_t max_rows);
    const std::vector<AckRecord>& AckTrace(std::size_t flow) const { return m_flows.at(flow).trace; }

    const Scenario& GetScenario() const { return *m_scenario; }
    const std::shared_ptr<const Scenario>& SharedScenario() const { return m_scenario; }
    uint64_t EventCount() const { return m_event_count; }
    PacketCounts CountPackets(std::size_t flow) const;
    LinkCounts CountAtLink(std::size_t flow, std::size_t link) const;
    /** The last interval at each link, where there are several. */
    const NetworkRows& Rows() const { return m_rows; }
    SlotCounts CountSlots() const;
    /** What is measured of the links, where there are several: [links, LINK_STAT + LINK_SUMMARY]. */
    std::vector<double> LinkRows() const { return LinkRowsOf(*this, m_rows); }
    Outlook OutlookOf(std::size_t flow) const;

    /** Whether a controller outside `cc/` decides for a flow. */
    bool HasOwnPlugins() const { return !m_own_plugins.empty(); }
    /** Gives a copy of an engine controllers of its own. */
    void CopyOwnPlugins();

    int64_t NowNs() const { return m_now_ns; }
    /** Bytes that a link could have carried until now. */
    double CapacityBytes(std::size_t link) const { return HopAt(link).bottleneck.CapacityBytes(m_now_ns); }
    SenderState Sender(std::size_t flow) const;
    /** Whether there are flows of others, without whose state a copy cannot go on. */
    bool HasExternals() const { return !m_externals.empty(); }

  private:
    /** A hop as its measurement asks about it. */
    class View : public MeasuredWorld
    {
      public:
        View(const Engine& engine, const Hop& hop) : View(engine, hop, engine.m_fair_shares) {}
        View(const Engine& engine, const Hop& hop, const FairShares& fair_shares)
            : m_engine(engine),
              m_hop(hop),
              m_fair_shares(fair_shares)
        {}
        int64_t NowNs() const override { return m_engine.m_now_ns; }
        double CapacityBytes() const override { return m_hop.bottleneck.CapacityBytes(NowNs()); }
        PartlySent InTransmission() const override { return m_hop.bottleneck.InTransmission(NowNs()); }
        double QueueByteNs() const override { return m_hop.bottleneck.QueueByteNs(NowNs()); }
        SenderState Sender(std::size_t flow) const override { return m_engine.Sender(flow); }
        double FairShareBytes(std::size_t flow) const override { return m_fair_shares.Bytes(flow); }

      private:
        const Engine& m_engine;
        const Hop& m_hop;
        const FairShares& m_fair_shares;
    };

    enum Stage : std::size_t
    {
        GLOBAL,
        SENDERS,
        BOTTLENECK,
        RECEIVERS,
        STAGES
    };

    /** Sources of events: the first link's, those of each further one, then those of each flow. */
    enum Source : uint32_t
    {
        SERVER,
        LINK,
        LATE, ///< packets on the link that may be overtaken, or overtake
        SOURCES_PER_HOP,
        GATE = SOURCES_PER_HOP, ///< ACKs leave
        SCRIPT,
        FIRST_HOP,
        FIRST_FLOW = 64
    };

    enum FlowSource : uint32_t
    {
        // The senders' stage, the busy ones first.
        RETURN_PATH,
        SEND,
        TIMER,
        APP,
        SYN_TIMER,
        // The bottleneck's.
        ACCESS,
        // The receivers'.
        DELAYED_ACK,
        ACCEPT, ///< the first SYN is answered
                // A global event.
        LIFE,
        SOURCES_PER_FLOW = 16 ///< or fewer: a power of two divides faster
    };

    static constexpr uint32_t BUSY_SENDER_SOURCES = TIMER;

    /** A change of a link, or the warm-up's end. */
    struct Moment
    {
        int64_t time_ns;
        std::size_t link;
        const LinkChange* change; ///< null: the warm-up ends
    };

    /** Leaves of the receivers' queue, where the first link has such sources. */
    enum ReceiversLeaf : std::size_t
    {
        LATE_LEAF,
        GATE_LEAF,
        RECEIVERS_LEAVES
    };

    void PrepareFlow(std::size_t flow, uint64_t seed);
    void PreparePath(std::size_t flow, const std::vector<uint32_t>& path);
    void PrepareScript();
    void TakeInterval(const WorldTables& tables);
    void AccrueFairShares();
    void SetActive(const FlowState& flow, bool is_active);

    // The network's links: by index, that of the first one is 0.
    Hop& HopAt(std::size_t index) { return index == 0 ? m_first : m_further_hops[index - 1]; }
    const Hop& HopAt(std::size_t index) const { return index == 0 ? m_first : m_further_hops[index - 1]; }
    bool IsNetwork() const { return m_is_network; }
    template <class Call> [[gnu::always_inline]] void AtEachHop(Call&& call);
    template <class Call> [[gnu::always_inline]] void OnPath(const FlowState& flow, Call&& call);
    template <class Call> [[gnu::noinline]] void OnPathOfNetwork(const FlowState& flow, Call call);
    /** Index of the first link where it is known: what each packet passes is compiled for it alone, too. */
    using First = std::integral_constant<std::size_t, 0>;
    static uint32_t SourceOfHop(std::size_t index, Source kind)
    {
        const std::size_t first = index == 0 ? 0 : FIRST_HOP + (index - 1) * SOURCES_PER_HOP;
        return static_cast<uint32_t>(first + kind);
    }
    static std::size_t LeafOfHop(std::size_t index, Source kind)
    {
        return index == 0 ? std::size_t{LATE_LEAF} : RECEIVERS_LEAVES + (index - 1) * SOURCES_PER_HOP + kind;
    }

    // Events.
    static uint32_t SourceOf(std::size_t flow, FlowSource kind)
    {
        return FIRST_FLOW + static_cast<uint32_t>(flow) * SOURCES_PER_FLOW + kind;
    }
    FlowState& FlowOf(uint32_t source) { return m_flows[(source - FIRST_FLOW) / SOURCES_PER_FLOW]; }
    static FlowSource KindOf(uint32_t source)
    {
        return static_cast<FlowSource>((source - FIRST_FLOW) % SOURCES_PER_FLOW);
    }

    /** Leaf of the senders' queue. */
    static std::size_t LeafOf(std::size_t flow, FlowSource kind) { return flow * BUSY_SENDER_SOURCES + kind; }

    /**
     * The order of an event that a stage schedules now. Its number is the time, or one more than the last number, so
     * that numbers of two stages compare like the times. The first of `events` scheduled in a row.
     */
    uint64_t Order(Stage stage, uint32_t source, uint32_t events = 1)
    {
        uint64_t& last = m_last_numbers[m_takes_turns ? std::size_t{stage} : 0];
        const uint64_t first = std::max(last + 1, static_cast<uint64_t>(m_now_ns));
        last = first + events - 1;
        return first << Event::SOURCE_BITS | source;
    }
    void PutGlobalEvent(int64_t time_ns, uint32_t source)
    {
        m_global_events.AddSeldom({time_ns, Order(GLOBAL, source)});
    }
    void PutTimer(std::size_t flow, FlowSource kind, int64_t time_ns)
    {
        m_senders.AddSeldom({time_ns, Order(SENDERS, SourceOf(flow, kind))});
    }
    /** A pipe's next event is its first packet's arrival. */
    template <class Pipe> static void SchedulePipe(const Pipe& pipe, EventQueue& events, std::size_t leaf)
    {
        events.Set(leaf, pipe.empty() ? Event{NEVER_NS, 0} : Event{pipe.front().arrives_ns, pipe.front().order});
    }
    Event NextService() const { return {m_first.bottleneck.NextServiceNs(), m_first.server_order}; }
    Event NextOnLink() const
    {
        const Ring<PacketOnLink>& link = m_first.link;
        return link.empty() ? Event{NEVER_NS, 0} : Event{link.front().arrives_ns, link.front().order};
    }

    void RunUntil(int64_t end_ns, StopCheck* stop);
    void RunBefore(const Event& bound, StopCheck* stop);
    void RunSenders(const Event& bound);
    void RunBottleneck(const Event& bound);
    void RunReceivers(const Event& bound);
    void Begin(const Event& event)
    {
        m_now_ns = event.time_ns;
        ++m_event_count;
    }
    void HandleSender(uint32_t source);
    void HandleReceiver(const Event& event);
    [[gnu::noinline]] void HandleFurtherHop(uint32_t source);
    void RunScript();
    void PutNextOfScript();

    // The network.
    [[gnu::always_inline]] void Emit(FlowState& flow, PacketName name, uint32_t pkts = 1);
    [[gnu::always_inline]] void Emit(FlowState& flow, uint64_t seqno, EcnBits ecn = {}, uint32_t pkts = 1)
    {
        Emit(flow, PacketName(seqno, flow.index, ecn, flow.sender.SkbNumber()), pkts);
    }
    template <class Index> void ReachQueue(Index index, FlowState& flow, Event arrival, const Event& bound);
    template <class Index> [[gnu::always_inline]] void EnterQueue(Index index, PacketName name);
    template <class Index> [[gnu::always_inline]] void Serve(Index index);
    template <class Index> [[gnu::always_inline]] void NumberService(Index index);
    template <class Index>
    [[gnu::always_inline]] void PutOnLink(Index index, const QueuedPacket& packet, LinkDelay::Arrival arrival);
    [[gnu::always_inline]] void LeaveLink(const Hop& hop, const QueuedPacket& packet);
    [[gnu::noinline]] void GoOn(const Hop& hop, const QueuedPacket& packet);
    [[gnu::noinline]] void FreeDropped();
    void ReachReceiver(const QueuedPacket& queued);
    [[gnu::always_inline]] void NoteReadable(FlowState& flow, uint64_t bytes);
    void SendAck(FlowState& flow);
    [[gnu::noinline]] uint32_t PutInSlot(const AckInSlot& ack);
    [[gnu::always_inline]] static void PutInPipes(FlowState& flow, std::span<const SeqnoRange> blocks,
                                                  uint64_t window_end, int64_t echo_ms);
    [[gnu::noinline]] void QueueAck(const FlowState& flow, HeldAck ack);
    [[gnu::always_inline]] void SendBack(FlowState& flow, HeldAck ack);
    [[gnu::noinline]] void HoldAtGate(HeldAck ack);
    [[gnu::noinline]] void LeaveGate();
    [[gnu::always_inline]] void PutOnReturnPath(FlowState& flow, HeldAck ack);
    [[gnu::always_inline]] void ReturnDirectly(FlowState& flow, AckName name);
    [[gnu::noinline]] void ReachSender(FlowState& flow);
    [[gnu::always_inline]] void AwaitDelayedAck(FlowState& flow);
    [[gnu::noinline, gnu::cold]] void AwaitWindowUpdate(FlowState& flow);
    void ArmDelayedAck(FlowState& flow);
    void AnswerDelayed(const Event& event);

    // External flows (engine_external.cpp).
    void OpenExternal(FlowState& flow, uint64_t seed);
    bool IsExternal(const FlowState& flow) const { return HasExternals() && m_externals[flow.index]; }
    const char* SendExternal(std::size_t index, bbrgym_end end, uint32_t bytes, uint64_t tag);
    void SetExternalTimer(std::size_t index, bbrgym_end end, int64_t at_ns);
    [[gnu::noinline, gnu::cold]] void HandleExternal(FlowState& flow, FlowSource kind);
    /** Leaf of the senders' queue: that of sends, which an external flow's sender does not have, or behind all. */
    std::size_t ExternalTimerLeaf(std::size_t flow, bbrgym_end end) const
    {
        return end == BBRGYM_SENDER ? LeafOf(flow, SEND) : LeafOf(m_flows.size(), RETURN_PATH) + flow;
    }
    [[gnu::noinline, gnu::cold]] void DeliverExternal(FlowState& flow, bbrgym_end end, std::size_t slot);
    [[gnu::noinline, gnu::cold]] void DropExternal(const PacketName& name);
    void WriteExternal(FlowState& flow, uint64_t bytes);
    void RunExternalApplication(FlowState& flow);
    SenderState StateOfExternal(std::size_t flow) const;
    void BlankExternal(std::span<double> flow_table, bool is_summary) const;

    // The handshake (engine_handshake.cpp).
    void SendSyn(FlowState& flow);
    [[gnu::noinline]] void OpenConnection(FlowState& flow, PacketName packet);
    [[gnu::noinline]] void SendSynAck(FlowState& flow);
    void Establish(FlowState& flow);
    uint64_t FirstWindowPkts(const FlowState& flow) const;

    // The log of packets (engine_log.cpp).
    [[gnu::noinline, gnu::cold]] void LogAt(PacketEvent event, const PacketName& packet);
    [[gnu::noinline, gnu::cold]] void LogAck(PacketEvent event, std::size_t flow, uint64_t una,
                                             std::span<const SeqnoRange> blocks, uint64_t window_pkts, uint16_t flags);
    [[gnu::noinline, gnu::cold]] void LogLosses(FlowState& flow);
    [[gnu::noinline, gnu::cold]] void LogDecision(FlowState& flow, AckName ack, std::span<const SeqnoRange> blocks,
                                                  const cc_sample& sample);

    // The sender.
    void OnAckArrived(FlowState& flow, AckName ack, std::span<const SeqnoRange> blocks, uint64_t window_pkts);
    void TrySend(FlowState& flow);
    [[gnu::always_inline]] void SendNew(FlowState& flow, uint32_t pkts = 1);
    [[gnu::always_inline]] void SendBurst(FlowState& flow);
    void OnTimer(FlowState& flow);
    uint64_t NewPkts(const FlowState& flow) const;
    void ArmSend(FlowState& flow, int64_t time_ns);
    void ArmTimer(FlowState& flow);

    // The application (engine_application.cpp).
    void StartOrStop(FlowState& flow);
    void RunApplication(FlowState& flow);
    void KeepBacklog(FlowState& flow);
    void ArmApplication(FlowState& flow, int64_t time_ns);
    void WakeWriter(FlowState& flow);
    SendBufferLoad LoadOf(const FlowState& flow) const;
    void Write(FlowState& flow, uint64_t pkts);

    std::shared_ptr<const Scenario> m_scenario;
    int64_t m_now_ns = 0; ///< of the stage that runs
    bool m_may_take_turns = true;
    bool m_takes_turns = true;
    bool m_is_network = false; ///< of several links
    int64_t m_turn_ns = 0;     ///< longest that no receiver reaches a sender
    std::array<uint64_t, STAGES>
        m_last_numbers{}; ///< of the events scheduled; without turns the first one for all stages
    uint64_t m_event_count = 0;
    EventQueue m_global_events;
    EventQueue m_senders;
    EventQueue m_arrivals;  ///< at the bottleneck, a leaf for each flow
    EventQueue m_receivers; ///< but for arrivals in order on the first link; all of the further ones

    Hop m_first;
    std::vector<Hop> m_further_hops;
    AckGate<HeldAck> m_ack_gate;
    std::vector<AckInSlot> m_acks; ///< slots
    std::vector<uint32_t> m_free_slots;
    std::vector<FlowState> m_flows;
    std::vector<WriteTimes> m_write_times;                              ///< of the flows
    std::map<std::size_t, std::shared_ptr<const Plugin>> m_own_plugins; ///< by flow
    std::vector<std::shared_ptr<ExternalFlow>> m_externals; ///< of each flow; null: it is ours. Empty: all are

    std::vector<Moment> m_script; ///< by time
    std::size_t m_script_at = 0;
    uint64_t m_script_number = 0; ///< of its first event's order

    uint64_t m_buffer_pkts = 0;
    double m_useful_window_pkts = 0;
    NetworkRows m_rows; ///< where there are several links
    FairShares m_fair_shares;
    TunableTable m_tunables;
};

template <class Call>
inline void
Engine::AtEachHop(Call&& call)
{
    call(m_first);
    for (Hop& hop : m_further_hops)
    {
        call(hop);
    }
}

/** The hops that a flow's data cross. A call that captures locals by value leaves them in registers. */
template <class Call>
inline void
Engine::OnPath(const FlowState& flow, Call&& call)
{
    if (!IsNetwork()) [[likely]]
    {
        call(m_first);
        return;
    }
    OnPathOfNetwork(flow, call);
}

template <class Call>
void
Engine::OnPathOfNetwork(const FlowState& flow, Call call)
{
    for (const uint32_t index : m_scenario->flows[flow.index].there)
    {
        call(HopAt(index));
    }
}

/** Packets leave the sender together. */
inline void
Engine::Emit(FlowState& flow, PacketName name, uint32_t pkts)
{
    if (Log().IsOn()) [[unlikely]]
    {
        LogAt(PacketEvent::sent, name);
    }
    flow.access.push_back({m_now_ns + flow.access_ns, Order(SENDERS, SourceOf(flow.index, ACCESS), pkts), name, pkts});
    if (flow.access.size() == 1)
    {
        m_arrivals.SetEarlier(flow.index, {flow.access.front().arrives_ns, flow.access.front().order});
    }
}

inline void
Engine::NoteReadable(FlowState& flow, uint64_t bytes)
{
    OnPath(flow, [this, &flow, bytes](Hop& hop) {
        if (hop.measurement.Readable(flow.index, bytes, m_now_ns)) [[unlikely]]
        {
            SetActive(flow, false);
            hop.measurement.FlowCompleted(flow.index, View(*this, hop));
        }
    });
}

/** A packet leaves the receiver, unless the gate holds it, which those on the first link's far side have. */
inline void
Engine::SendBack(FlowState& flow, HeldAck ack)
{
    if (!m_ack_gate.IsOpen() && flow.first_there == 0) [[unlikely]]
    {
        HoldAtGate(ack);
        return;
    }
    PutOnReturnPath(flow, ack);
}

inline void
Engine::PutOnReturnPath(FlowState& flow, HeldAck ack)
{
    if (ack.slot != HeldAck::IN_PIPES) [[unlikely]]
    {
        QueueAck(flow, ack);
        return;
    }
    ReturnDirectly(flow, ack.name);
}

inline void
Engine::ReturnDirectly(FlowState& flow, AckName name)
{
    flow.return_path.push_back({m_now_ns + flow.return_ns, Order(RECEIVERS, SourceOf(flow.index, RETURN_PATH)), name});
    if (flow.return_path.size() == 1)
    {
        m_senders.SetEarlier(LeafOf(flow.index, RETURN_PATH),
                             {flow.return_path.front().arrives_ns, flow.return_path.front().order});
    }
}

} // namespace bbrgym

#endif
