// SPDX-License-Identifier: GPL-2.0-only
//
// One run of a scenario, packet by packet:
//
//   application -> sender -> access delay -> [ bottleneck ] -> link delay -> receiver
//                     ^------------------ return delay -----------------------'
//
// Delays are pipes that keep order; only the bottleneck queues or drops. An Engine is a value: a copy
// continues exactly as the original would. After a scenario's busiest moment it allocates no more memory, also after
// a Reset.
//
// Not modelled: connection tear-down (nothing leaves after the last data segment), segments that are not full
// (applications write whole ones), queueing of ACKs on the way back, slow readers
// (applications read at once), and the omissions that sender.hpp and receiver.hpp list.
#ifndef BBRGYM_TWIN_ENGINE_HPP
#define BBRGYM_TWIN_ENGINE_HPP

#include "event_queue.hpp"
#include "flow.hpp"

#include "ack_gate.hpp"
#include "bottleneck.hpp"
#include "measurement.hpp"
#include "stop.hpp"
#include "tables.hpp"
#include "tunable_table.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace bbrgym
{

/** The whereabouts of all data packets that a flow has sent. */
struct Census
{
    uint64_t sent_pkts = 0;
    uint64_t in_access_pkts = 0;
    uint64_t queued_pkts = 0; ///< the one in transmission included
    uint64_t on_link_pkts = 0;
    uint64_t arrived_pkts = 0; ///< duplicates included
    uint64_t dropped_pkts = 0; ///< by the queue or at random
};

class Engine : public MeasuredWorld
{
  public:
    /** Begins a run and fills the tables. ScenarioError: a flow has a controller, or the link a hop, that this world does not have. */
    void Reset(std::shared_ptr<const Scenario> scenario, uint64_t seed, const WorldTables& tables);

    /**
     * Takes over changed tunables, runs for so long, at most to the scenario's end, and measures that interval.
     * Stopped: `stop` said so; the engine must be reset.
     */
    void Advance(double duration_s, const WorldTables& tables, StopCheck* stop = nullptr);
    bool Done() const { return m_now_ns >= m_scenario->duration_ns; }
    void Summarise(std::span<double> flow_table, std::span<double> link_row) const;

    void TraceAcks(std::size_t flow, std::size_t max_rows);
    const std::vector<AckRecord>& AckTrace(std::size_t flow) const;

    const Scenario& GetScenario() const { return *m_scenario; }
    const std::shared_ptr<const Scenario>& SharedScenario() const { return m_scenario; }
    uint64_t EventCount() const { return m_event_count; }
    Census CountPackets(std::size_t flow) const;

    // MeasuredWorld
    int64_t NowNs() const override { return m_now_ns; }
    double CapacityBytes() const override { return m_bottleneck.CapacityBytes(m_now_ns); }
    double QueueByteNs() const override { return m_bottleneck.QueueByteNs(m_now_ns); }
    SenderState Sender(std::size_t flow) const override;

  private:
    /** Sources of events: the network's, then those of each flow. The first ones of each are busy. */
    enum Source : uint32_t
    {
        SERVER,
        LINK,
        SCRIPT,
        LATE, ///< packets on the link that may be overtaken
        GATE, ///< ACKs leave
        FIRST_FLOW = 8
    };

    enum FlowSource : uint32_t
    {
        ACCESS,
        WAY_BACK,
        SEND,
        TIMER,
        DELAYED_ACK,
        APP,
        SYN_TIMER,
        LIFE,
        SOURCES_PER_FLOW
    };

    static constexpr uint32_t BUSY_SOURCES = SCRIPT;
    static constexpr uint32_t BUSY_FLOW_SOURCES = TIMER;

    void PrepareFlow(std::size_t flow, uint64_t seed);
    void PrepareScript();

    // Events.
    uint64_t Order(uint32_t source) { return m_next_order++ << Event::SOURCE_BITS | source; }
    uint64_t Order(std::size_t flow, FlowSource kind) { return Order(SourceOf(flow, kind)); }
    static uint32_t SourceOf(std::size_t flow, FlowSource kind)
    {
        return FIRST_FLOW + static_cast<uint32_t>(flow) * SOURCES_PER_FLOW + kind;
    }
    /** Leaf of a busy source of a flow; the network's first sources are their own leaves. */
    static std::size_t LeafOf(std::size_t flow, FlowSource kind) { return BUSY_SOURCES + flow * BUSY_FLOW_SOURCES + kind; }
    // Behind all flows, and only where the link has such sources.
    std::size_t LateLeaf() const { return LeafOf(m_flows.size(), ACCESS); }
    std::size_t GateLeaf() const { return LateLeaf() + 1; }
    std::size_t LeafCount() const;
    void PutSeldom(int64_t time_ns, uint32_t source) { m_events.AddSeldom({time_ns, Order(source)}); }
    /** A pipe's next event is its first packet's arrival. */
    template <class Pipe>
    void ShowPipe(const Pipe& pipe, std::size_t leaf)
    {
        pipe.empty() ? m_events.Clear(leaf) : m_events.Set(leaf, {pipe.front().arrives_ns, pipe.front().order});
    }
    void ShowServer();
    void RunUntil(int64_t end_ns, StopCheck* stop);
    void Handle(uint32_t source);
    void HandleFlow(std::size_t flow, FlowSource kind);
    void RunScript();

    // The network.
    void Emit(std::size_t flow, uint64_t serial, EcnBits ecn = {});
    void ReachQueue(std::size_t flow);
    void Serve();
    void PutOnLink(PacketName name, LinkDelay::Arrival arrival);
    void ReachReceiver(uint32_t source);
    void SendAck(std::size_t flow);
    void SendBack(HeldAck ack);
    [[gnu::noinline]] void HoldAtGate(HeldAck ack);
    [[gnu::noinline]] void LeaveGate();
    void PutOnWayBack(HeldAck ack);
    void ReachSender(std::size_t flow);
    void ArmDelayedAck(std::size_t flow);
    void AnswerDelayed(std::size_t flow);

    // The sender.
    void SendSyn(std::size_t flow);
    void Establish(std::size_t flow);
    void TakeAck(std::size_t flow, const AckInPipe& ack, std::span<const SerialRange> blocks, uint64_t window_pkts);
    void TrySend(std::size_t flow);
    void SendNew(std::size_t flow);
    void OnTimer(std::size_t flow);
    bool HasNew(const FlowState& flow) const;
    void SendNow(std::size_t flow);
    void ArmSend(std::size_t flow, int64_t time_ns);
    void ArmTimer(std::size_t flow);

    // The application.
    void StartOrStop(std::size_t flow);
    void RunApplication(std::size_t flow);
    void KeepBacklog(std::size_t flow);
    void BeginBurst(std::size_t flow);
    void WriteOnBeat(std::size_t flow);
    void ArmApplication(std::size_t flow, int64_t time_ns);
    void WakeWriter(std::size_t flow);
    SendBufferLoad LoadOf(const FlowState& flow) const;
    void Write(std::size_t flow, uint64_t pkts);

    std::shared_ptr<const Scenario> m_scenario;
    int64_t m_now_ns = 0;
    uint64_t m_next_order = 0;
    uint64_t m_event_count = 0;
    EventQueue m_events;

    Bottleneck<QueuedPacket> m_bottleneck;
    Ring<PacketInPipe> m_link;
    Ring<PacketInPipe> m_late;
    AckGate<HeldAck> m_ack_gate;
    std::vector<FlowState> m_flows;

    std::vector<std::size_t> m_script; ///< indices of the link's changes, then one more for the end of the warm-up
    std::size_t m_script_at = 0;

    uint64_t m_buffer_pkts = 0;
    double m_useful_window_pkts = 0;
    Measurement m_measurement;
    TunableTable m_tunables;
};

} // namespace bbrgym

#endif
