// SPDX-License-Identifier: GPL-2.0-only
//
// The tail loss probe alone. Prints a name and a value a line.
//
// usage: probe_facts EXPERIMENT
//     waits         after how many ms it leaves: of a connection without a sample, of one packet out, of several
//     deadline      the latest one in ms, of a head that times out after 100 ms, and whether the head limits it
//     retransmission, new   whether a probe repaired a loss, is acknowledged and is still out, after each kind of ACK
#include "tail_loss_probe.hpp"

#include <cstdio>
#include <functional>
#include <string_view>

namespace
{

constexpr int64_t MS = 1'000'000;
constexpr uint64_t NEXT = 20;

void
Waits()
{
    bbrgym::RttEstimator rtt;
    std::printf("no_sample %g\n", double(bbrgym::TailLossProbe::WaitNs(rtt, 5)) / MS);
    rtt.AddSample(50 * MS, 0, 0);
    std::printf("one %g\n", double(bbrgym::TailLossProbe::WaitNs(rtt, 1)) / MS);
    std::printf("several %g\n", double(bbrgym::TailLossProbe::WaitNs(rtt, 2)) / MS);
}

void
Deadline()
{
    constexpr int64_t RTO_MS = 300;
    for (const bool is_limited : {false, true})
    {
        bbrgym::SocketFacts facts;
        facts.head_limits_probe = is_limited;
        bbrgym::TailLossProbe probe;
        probe.SetFacts(facts);
        probe.OnHead(100 * MS);
        std::printf("%s %g\n", is_limited ? "limited" : "free", double(probe.LatestDeadlineNs(RTO_MS * MS, 0)) / MS);
        std::printf("%s_late %g\n", is_limited ? "limited" : "free", double(probe.LatestDeadlineNs(RTO_MS * MS, 200 * MS)) / MS);
    }
}

void
After(const char* event, bool is_retransmission, const std::function<bool(bbrgym::TailLossProbe&)>& happens)
{
    bbrgym::TailLossProbe probe;
    probe.Arm(10 * MS);
    probe.OnSent(NEXT, is_retransmission, false);
    const bool result = happens(probe);
    std::printf("%s %d,%d,%d\n", event, result, probe.IsAcked(), probe.IsOut());
}

} // namespace

int
main(int, char** argv)
{
    const std::string_view experiment = argv[1];
    if (experiment == "waits")
    {
        Waits();
        return 0;
    }
    if (experiment == "deadline")
    {
        Deadline();
        return 0;
    }
    const bool is_retransmission = experiment == "retransmission";
    using Probe = bbrgym::TailLossProbe;
    After("below", is_retransmission, [](Probe& probe) { return probe.OnAck(NEXT - 1, true, false); });
    After("up_to_it", is_retransmission, [](Probe& probe) { return probe.OnAck(NEXT, true, false); });
    After("up_to_it_then_duplicate", is_retransmission, [](Probe& probe) {
        probe.OnAck(NEXT, true, false);
        return probe.OnAck(NEXT, false, false);
    });
    After("beyond", is_retransmission, [](Probe& probe) { return probe.OnAck(NEXT + 1, true, false); });
    After("d_sack", is_retransmission, [](Probe& probe) { return probe.OnDuplicateReport(NEXT); });
    After("d_sack_of_another", is_retransmission, [](Probe& probe) { return probe.OnDuplicateReport(NEXT - 1); });
}
