// SPDX-License-Identifier: GPL-2.0-only
//
// The application: when it writes, and how much the send buffer takes.
#include "engine.hpp"

#include <algorithm>

namespace bbrgym
{

namespace
{

constexpr uint64_t MIN_BACKLOG_PKTS = 64;
constexpr uint64_t EVERYTHING = uint64_t{1} << 40; // more segments than any buffer takes

} // namespace

void
Engine::StartOrStop(FlowState& flow)
{
    const Flow& spec = m_scenario->flows[flow.index];
    if (flow.is_running)
    {
        // Written data is still sent; no more is written.
        flow.is_running = false;
        flow.PlanRefill();
        flow.app_event_ns = NEVER_NS;
        SetActive(flow, false);
        OnPath(flow, [&](Hop& hop) { hop.measurement.FlowStopped(flow.index, View(*this, hop)); });
        if (IsExternal(flow))
        {
            WriteExternal(flow, 0);
        }
        return;
    }
    flow.is_running = true;
    PutGlobalEvent(spec.stop_ns, SourceOf(flow.index, LIFE));
    SetActive(flow, true);
    OnPath(flow, [&](Hop& hop) { hop.measurement.FlowStarted(flow.index, View(*this, hop)); });
    if (!IsExternal(flow))
    {
        SendSyn(flow);
    }
    RunApplication(flow);
}

void
Engine::RunApplication(FlowState& flow)
{
    if (IsExternal(flow))
    {
        RunExternalApplication(flow);
        return;
    }
    if (std::holds_alternative<Bulk>(m_scenario->flows[flow.index].app))
    {
        KeepBacklog(flow);
        return;
    }
    const uint64_t pkts = m_write_times[flow.index].Pkts();
    const uint64_t before = flow.written;
    Write(flow, pkts);
    if (pkts > 0 && std::holds_alternative<Frames>(m_scenario->flows[flow.index].app))
    {
        OnPath(flow, [&](Hop& hop) {
            hop.measurement.FrameWritten(flow.index, flow.written * m_scenario->mss_bytes,
                                         flow.written - before == pkts, m_now_ns);
        });
    }
    ArmApplication(flow, m_write_times[flow.index].NextNs(m_now_ns));
}

/** Bulk: slightly more packets than the sender can use soon, so that it never waits and little is left at the stop. */
void
Engine::KeepBacklog(FlowState& flow)
{
    const uint64_t pkts = std::get<Bulk>(m_scenario->flows[flow.index].app).pkts;
    const uint64_t left = pkts > 0 ? pkts - flow.written : EVERYTHING;
    if (!flow.send_buffer.IsAmple())
    {
        Write(flow, left);
        return;
    }
    // Half a window is more than any ACK frees.
    const double cwnd_pkts = flow.is_established ? flow.sender.WindowPkts() : 0;
    const double window_pkts = std::min(cwnd_pkts, m_useful_window_pkts);
    flow.backlog_pkts = std::max(MIN_BACKLOG_PKTS, static_cast<uint64_t>(window_pkts / 2));
    const uint64_t unsent = flow.written - flow.sender.Board().Next();
    if (unsent < flow.backlog_pkts)
    {
        Write(flow, std::min(flow.backlog_pkts - unsent, left));
    }
    if (pkts > 0 && flow.written == pkts)
    {
        flow.backlog_pkts = 0; // none is needed any more
    }
    flow.PlanRefill();
}

void
Engine::ArmApplication(FlowState& flow, int64_t time_ns)
{
    if (flow.app_event_ns == NEVER_NS)
    {
        flow.app_event_ns = time_ns;
        PutTimer(flow.index, APP, time_ns);
    }
}

/** A writer waits for room in the send buffer: one of bulk data goes on when there is enough. */
void
Engine::WakeWriter(FlowState& flow)
{
    const bool is_bulk = std::holds_alternative<Bulk>(m_scenario->flows[flow.index].app);
    if (flow.send_buffer.WakesWriter(LoadOf(flow)) && is_bulk && flow.is_running)
    {
        ArmApplication(flow, m_now_ns);
    }
}

SendBufferLoad
Engine::LoadOf(const FlowState& flow) const
{
    const Scoreboard& board = flow.sender.Board();
    return {.unsent_pkts = flow.written - board.Next(),
            .out_pkts = board.PacketsOut(),
            .sacked_pkts = board.SackedOut(),
            .in_flight_pkts = board.InFlight(),
            .cwnd_pkts = flow.sender.WindowPkts(),
            .burst_pkts = flow.sender.BurstPkts(),
            .in_recovery = flow.sender.LossState() >= CC_CA_RECOVERY};
}

/** Data for which the socket's buffer has no room is never written, as by a live source. */
void
Engine::Write(FlowState& flow, uint64_t pkts)
{
    const uint64_t taken = flow.send_buffer.Accept(pkts, LoadOf(flow));
    if (taken == 0)
    {
        return;
    }
    if (flow.is_established)
    {
        flow.sender.BeforeWrite(flow.HasUnsent());
        if (flow.send_event_ns == NEVER_NS)
        {
            ArmSend(flow, m_now_ns);
        }
    }
    flow.written += taken;
    flow.PlanRefill();
}

} // namespace bbrgym
