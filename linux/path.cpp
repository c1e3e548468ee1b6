// SPDX-License-Identifier: GPL-2.0-only
#include "path.hpp"

#include "path_rows.hpp"

#include <algorithm>
#include <array>
#include <iterator>
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
      m_host(host)
{
    PrepareLinks(seed);
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
Path::PrepareLinks(uint64_t seed)
{
    const std::size_t flows = m_scenario->flows.size();
    m_hops.resize(1 + m_scenario->further_links.size());
    for (std::size_t link = 0; link < m_hops.size(); ++link)
    {
        Hop& hop = m_hops[link];
        hop.bottleneck.Reset(m_scenario->LinkAt(link), flows, m_scenario->mss_bytes + HEADER_BYTES, seed);
        hop.measurement.Reset(*m_scenario);
        hop.next.assign(flows, NONE);
    }
    for (std::size_t flow = 0; flow < flows; ++flow)
    {
        for (const auto* path : {&m_scenario->flows[flow].there, &m_scenario->flows[flow].back})
        {
            for (std::size_t i = 1; i < path->size(); ++i)
            {
                m_hops[(*path)[i - 1]].next[flow] = (*path)[i];
            }
        }
    }
}

void
Path::FindShortestDelay()
{
    m_shortest_ns = m_scenario->link.delay_ns;
    for (std::size_t link = 0; link < m_hops.size(); ++link)
    {
        m_shortest_ns = std::min(m_shortest_ns, m_scenario->LinkAt(link).delay_ns);
        for (const LinkChange& change : m_scenario->LinkAt(link).changes)
        {
            m_shortest_ns = std::min(m_shortest_ns, change.delay_ns.value_or(m_shortest_ns));
        }
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
    m_script.push_back({m_scenario->warmup_ns, Moment::Kind::WARMED_UP, 0, nullptr});
    for (std::size_t link = 0; link < m_hops.size(); ++link)
    {
        for (const LinkChange& change : m_scenario->LinkAt(link).changes)
        {
            m_script.push_back({change.at_ns, Moment::Kind::CHANGE, link, &change});
        }
    }
    for (std::size_t i = 0; i < m_scenario->flows.size(); ++i)
    {
        m_script.push_back({m_scenario->flows[i].start_ns, Moment::Kind::START, i, nullptr});
        m_script.push_back({m_scenario->flows[i].stop_ns, Moment::Kind::STOP, i, nullptr});
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
        const bool is_retransmission = flow.tap.Sent(packet, now_ns);
        OnPath(packet.flow, [&](Hop& hop) { hop.measurement.Sent(packet.flow, is_retransmission); });
    }
    Send(packet, now_ns + flow.access_ns, Place::QUEUE, m_scenario->flows[packet.flow].there.front());
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
    const std::vector<uint32_t>& back = m_scenario->flows[packet.flow].back;
    if (back.empty())
    {
        Send(packet, now_ns + m_flows[packet.flow].return_ns, Place::SENDER);
        return;
    }
    WirePacket returning = packet;
    returning.is_returning = true;
    Send(returning, now_ns, Place::QUEUE, back.front());
}

void
Path::Send(const WirePacket& packet, int64_t time_ns, Place place, uint32_t link)
{
    if (m_free_slots.empty())
    {
        m_free_slots.push_back(static_cast<uint32_t>(m_packets.size()));
        m_packets.emplace_back();
    }
    const uint32_t slot = m_free_slots.back();
    m_free_slots.pop_back();
    m_packets[slot] = packet;
    (place == Place::QUEUE ? m_to_queue : m_to_hosts).push({time_ns, m_next_order++, slot, place, link});
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
    int64_t next_ns = std::min(m_gate.DeadlineNs(), m_to_queue.empty() ? NEVER_NS : m_to_queue.top().time_ns);
    for (const Hop& hop : m_hops)
    {
        next_ns = std::min(next_ns, hop.bottleneck.NextServiceNs());
    }
    return next_ns;
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
    else if (const auto due =
                 std::ranges::find(m_hops, time_ns, [](const Hop& hop) { return hop.bottleneck.NextServiceNs(); });
             due != m_hops.end())
    {
        Serve(*due);
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

/** What leaves a link goes to the next one's queue or, at its path's end, to a host. */
void
Path::Serve(Hop& hop)
{
    hop.bottleneck.Serve(m_now_ns, hop.measurement, [this, &hop](const WirePacket& packet, LinkDelay::Arrival arrival) {
        if (const uint32_t next = hop.next[packet.flow]; next != NONE)
        {
            Send(packet, arrival.at_ns, Place::QUEUE, next);
        }
        else if (packet.is_returning)
        {
            Send(packet, arrival.at_ns + m_flows[packet.flow].return_ns, Place::SENDER);
        }
        else
        {
            Send(packet, arrival.at_ns, Place::RECEIVER);
        }
    });
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
    Hop& hop = m_hops[m_to_queue.top().link];
    WirePacket packet = Taken(m_to_queue);
    packet.queued_ns = m_now_ns;
    hop.bottleneck.Arrive(packet, m_now_ns, hop.measurement);
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
            OnPath(packet.flow, [&](Hop& hop) { hop.measurement.RttSample(packet.flow, *rtt_ns); });
        }
        m_host.ReachSender(packet, due.time_ns);
        return;
    }
    if (const uint64_t readable_bytes = IsFlowsData(packet) ? tap.Arrived(packet) : 0; readable_bytes > 0)
    {
        OnPath(packet.flow, [&](Hop& hop) {
            if (hop.measurement.Readable(packet.flow, readable_bytes, m_now_ns))
            {
                hop.measurement.FlowCompleted(packet.flow, View(*this, hop));
            }
        });
    }
    m_host.ReachReceiver(packet, due.time_ns);
}

void
Path::Act(const Moment& moment)
{
    switch (moment.kind)
    {
    case Moment::Kind::WARMED_UP:
        for (Hop& hop : m_hops)
        {
            hop.measurement.WarmedUp(View(*this, hop));
        }
        return;
    case Moment::Kind::CHANGE:
        m_hops[moment.index].bottleneck.Change(*moment.change, m_now_ns, m_hops[moment.index].measurement);
        return;
    case Moment::Kind::START:
        OnPath(moment.index, [&](Hop& hop) { hop.measurement.FlowStarted(moment.index, View(*this, hop)); });
        return;
    case Moment::Kind::STOP:
        OnPath(moment.index, [&](Hop& hop) { hop.measurement.FlowStopped(moment.index, View(*this, hop)); });
    }
}

/** The links that a flow's data cross. */
template <class Call>
void
Path::OnPath(std::size_t flow, Call&& call)
{
    for (const uint32_t link : m_scenario->flows[flow].there)
    {
        call(m_hops[link]);
    }
}

// ---- measurements ---------------------------------------------------------------------------------------

void
Path::TakeInterval(std::span<double> flow_stats, std::span<double> link_stats)
{
    std::vector<std::vector<double>> rows(m_hops.size(), std::vector<double>(flow_stats.size()));
    std::array<double, std::size(LINK_STAT_FIELDS)> unseen;
    for (std::size_t link = 0; link < m_hops.size(); ++link)
    {
        Hop& hop = m_hops[link];
        hop.measurement.TakeInterval(View(*this, hop), rows[link], link == 0 ? link_stats : std::span<double>(unseen));
    }
    WriteRowsOnPaths<FlowStats>(
        rows, m_flows.size(), [this](std::size_t flow) -> const auto& { return m_scenario->flows[flow].there; },
        flow_stats);
}

void
Path::Summarise(std::span<double> flow_table, std::span<double> link_row) const
{
    std::vector<std::vector<double>> rows(m_hops.size(), std::vector<double>(flow_table.size()));
    std::array<double, std::size(LINK_SUMMARY_FIELDS)> unseen;
    for (std::size_t link = 0; link < m_hops.size(); ++link)
    {
        const Hop& hop = m_hops[link];
        hop.measurement.Summarise(View(*this, hop), rows[link], link == 0 ? link_row : std::span<double>(unseen));
    }
    WriteSummariesOnPaths(
        rows, m_flows.size(), [this](std::size_t flow) -> const auto& { return m_scenario->flows[flow].there; },
        flow_table, link_row);
}

} // namespace bbrgym
