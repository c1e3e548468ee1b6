// SPDX-License-Identifier: GPL-2.0-only
#include "path.hpp"

#include <algorithm>
#include <utility>

namespace bbrgym
{

namespace
{

bool
IsFlowsData(const WirePacket& packet)
{
    return packet.IsData() && !packet.foreign_payload;
}

} // namespace

Path::Path(std::shared_ptr<const Scenario> scenario, uint64_t seed, PathHost& host)
    : m_scenario(std::move(scenario)),
      m_host(host),
      m_measurement(*m_scenario)
{
    m_bottleneck.Reset(m_scenario->link, m_scenario->flows.size(), m_scenario->mss_bytes + HEADER_BYTES, seed);
    m_gate.Reset(m_scenario->link.acks);
    for (const Flow& flow : m_scenario->flows)
    {
        const PathDelays delays = PathDelaysOf(flow, *m_scenario);
        m_flows.push_back({delays.access_ns, delays.return_ns, {}});
    }
    PrepareScript();
    FindShortestDelay();
}

void
Path::FindShortestDelay()
{
    m_shortest_ns = m_scenario->link.delay_ns;
    for (const LinkChange& change : m_scenario->link.changes)
    {
        m_shortest_ns = std::min(m_shortest_ns, change.delay_ns.value_or(m_shortest_ns));
    }
    for (const FlowState& flow : m_flows)
    {
        m_shortest_ns = std::min(m_shortest_ns, flow.return_ns);
    }
}

/** At the same time the warm-up ends first, and a flow stops before another starts. */
void
Path::PrepareScript()
{
    m_script.push_back({m_scenario->warmup_ns, Moment::Kind::WARMED_UP, 0});
    for (std::size_t i = 0; i < m_scenario->link.changes.size(); ++i)
    {
        m_script.push_back({m_scenario->link.changes[i].at_ns, Moment::Kind::CHANGE, i});
    }
    for (std::size_t i = 0; i < m_scenario->flows.size(); ++i)
    {
        m_script.push_back({m_scenario->flows[i].start_ns, Moment::Kind::START, i});
        m_script.push_back({m_scenario->flows[i].stop_ns, Moment::Kind::STOP, i});
    }
    std::ranges::stable_sort(m_script, {}, [](const Moment& moment) { return std::pair(moment.time_ns, moment.kind); });
}

// ---- packets --------------------------------------------------------------------------------------------

void
Path::FromSender(const WirePacket& packet, int64_t now_ns)
{
    FlowState& flow = m_flows[packet.flow];
    if (IsFlowsData(packet))
    {
        m_measurement.Sent(packet.flow, flow.tap.Sent(packet, now_ns));
    }
    Send(packet, now_ns + flow.access_ns, Place::QUEUE);
}

void
Path::FromReceiver(const WirePacket& packet, int64_t now_ns)
{
    if (m_gate.IsOpen())
    {
        PutOnReturnPath(packet, now_ns);
    }
    else if (m_gate.Put(packet, now_ns))
    {
        m_gate.Release([this, now_ns](const WirePacket& held) { PutOnReturnPath(held, now_ns); });
    }
}

void
Path::PutOnReturnPath(const WirePacket& packet, int64_t now_ns)
{
    Send(packet, now_ns + m_flows[packet.flow].return_ns, Place::SENDER);
}

void
Path::Send(const WirePacket& packet, int64_t time_ns, Place place)
{
    if (m_free_slots.empty())
    {
        m_free_slots.push_back(static_cast<uint32_t>(m_packets.size()));
        m_packets.emplace_back();
    }
    const uint32_t slot = m_free_slots.back();
    m_free_slots.pop_back();
    m_packets[slot] = packet;
    (place == Place::QUEUE ? m_to_queue : m_to_hosts).push({time_ns, m_next_order++, slot, place});
}

// ---- events ---------------------------------------------------------------------------------------------

int64_t
Path::NextMomentNs() const
{
    return m_script_at < m_script.size() ? m_script[m_script_at].time_ns : NEVER_NS;
}

/** The next event that no host sees. */
int64_t
Path::NextInsideNs() const
{
    const int64_t arrival_ns = m_to_queue.empty() ? NEVER_NS : m_to_queue.top().time_ns;
    return std::min({m_bottleneck.NextServiceNs(), arrival_ns, m_gate.DeadlineNs()});
}

int64_t
Path::NextDueNs() const
{
    return m_to_hosts.empty() ? NEVER_NS : m_to_hosts.top().time_ns;
}

int64_t
Path::NextNs() const
{
    return std::min({NextMomentNs(), NextInsideNs(), NextDueNs()});
}

int64_t
Path::NextLookNs() const
{
    const int64_t inside_ns = NextInsideNs();
    const int64_t follows_ns = inside_ns == NEVER_NS ? NEVER_NS : inside_ns + m_shortest_ns;
    return std::min({NextMomentNs(), follows_ns, NextDueNs()}); // senders are read at the scenario's moments
}

void
Path::RunUntil(int64_t end_ns)
{
    for (int64_t next_ns = NextNs(); next_ns <= end_ns; next_ns = NextNs())
    {
        m_now_ns = std::max(m_now_ns, next_ns);
        Step(next_ns);
    }
    m_now_ns = std::max(m_now_ns, end_ns);
}

/** Handles one of the events of a time. */
void
Path::Step(int64_t time_ns)
{
    if (m_script_at < m_script.size() && m_script[m_script_at].time_ns == time_ns)
    {
        Act(m_script[m_script_at++]);
    }
    else if (m_bottleneck.NextServiceNs() == time_ns)
    {
        m_bottleneck.Serve(m_now_ns, m_measurement, [this](const WirePacket& packet, LinkDelay::Arrival arrival) {
            Send(packet, arrival.at_ns, Place::RECEIVER);
        });
    }
    else if (m_gate.DeadlineNs() == time_ns)
    {
        m_gate.Release([this](const WirePacket& held) { PutOnReturnPath(held, m_now_ns); });
    }
    else if (!m_to_queue.empty() && m_to_queue.top().time_ns == time_ns)
    {
        ReachQueue();
    }
    else
    {
        ReachHost();
    }
}

/** The first of the packets on their way, which arrives. */
WirePacket
Path::Taken(DueQueue& packets)
{
    const uint32_t slot = packets.top().slot;
    packets.pop();
    m_free_slots.push_back(slot);
    return std::move(m_packets[slot]); // with a foreign payload
}

void
Path::ReachQueue()
{
    WirePacket packet = Taken(m_to_queue);
    packet.queued_ns = m_now_ns;
    m_bottleneck.Arrive(packet, m_now_ns, m_measurement);
}

void
Path::ReachHost()
{
    const Due due = m_to_hosts.top();
    const WirePacket packet = Taken(m_to_hosts);
    FlowTap& tap = m_flows[packet.flow].tap;
    if (due.place == Place::SENDER)
    {
        if (const auto rtt_ns = packet.foreign_payload ? std::nullopt : tap.Acknowledged(packet, m_now_ns))
        {
            m_measurement.RttSample(packet.flow, *rtt_ns);
        }
        m_host.ReachSender(packet, due.time_ns);
        return;
    }
    if (const uint64_t readable_bytes = IsFlowsData(packet) ? tap.Arrived(packet) : 0; readable_bytes > 0)
    {
        if (m_measurement.Readable(packet.flow, readable_bytes))
        {
            m_measurement.FlowCompleted(packet.flow, *this);
        }
    }
    m_host.ReachReceiver(packet, due.time_ns);
}

void
Path::Act(const Moment& moment)
{
    switch (moment.kind)
    {
    case Moment::Kind::WARMED_UP: m_measurement.WarmedUp(*this); return;
    case Moment::Kind::CHANGE:
        m_bottleneck.Change(m_scenario->link.changes[moment.index], m_now_ns, m_measurement);
        return;
    case Moment::Kind::START: m_measurement.FlowStarted(moment.index, *this); return;
    case Moment::Kind::STOP: m_measurement.FlowStopped(moment.index, *this);
    }
}

// ---- measurements ---------------------------------------------------------------------------------------

void
Path::TakeInterval(std::span<double> flow_stats, std::span<double> link_stats)
{
    m_measurement.TakeInterval(*this, flow_stats, link_stats);
}

void
Path::Summarise(std::span<double> flow_table, std::span<double> link_row) const
{
    m_measurement.Summarise(*this, flow_table, link_row);
}

} // namespace bbrgym
