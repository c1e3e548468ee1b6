// SPDX-License-Identifier: GPL-2.0-only
//
// The parts that all worlds share. Those of the link are fed with random packets: policer, queues, marks, server, late
// packets, gate of the ACKs. Against brute force: opportunities of a trace, the histogram, draws, losses, times of
// writes. usage: laws SEED; prints the first broken law and ends with 1.
#include "ack_gate.hpp"
#include "bottleneck.hpp"
#include "histogram.hpp"
#include "link_delay.hpp"
#include "loss.hpp"
#include "opportunities.hpp"
#include "pie.hpp"
#include "policer.hpp"
#include "program.hpp"
#include "queue.hpp"
#include "random.hpp"
#include "write_times.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

namespace
{

using namespace bbrgym;

constexpr uint32_t FULL_BYTES = 1500;

struct TestPacket
{
    int64_t queued_ns = 0;
    std::size_t flow = 0;
    uint32_t bytes = FULL_BYTES;
    bool ect = false;
    bool is_marked = false;
    uint64_t number = 0;
    uint32_t skb = SKB_NUMBERS;

    std::size_t Flow() const { return flow; }
    uint32_t Bytes(uint32_t) const { return bytes; }
    bool IsData() const { return true; }
    uint32_t Skb() const { return skb; }
    bool IsEcnCapable() const { return ect; }
    bool Mark() { return !std::exchange(is_marked, true); }
    void Describe(PacketRecord&, uint32_t) const {}
};

struct Counts
{
    std::vector<TestPacket> dropped;
    std::vector<TestPacket> marked;

    void Dropped(const TestPacket& packet) { dropped.push_back(packet); }
    void Marked(const TestPacket& packet) { marked.push_back(packet); }
};

int64_t
Below(Random& random, int64_t n)
{
    return static_cast<int64_t>(random.Uniform() * static_cast<double>(n));
}

/** In each interval between two packets that pass: no more than burst + rate * time. */
void
CheckPolicer(Random& random)
{
    const Policer law{1e5 * (1 + 20 * random.Uniform()), 1500 + static_cast<uint64_t>(Below(random, 50'000))};
    TokenBucket bucket(law);
    std::vector<std::pair<int64_t, double>> passed; // with the bytes before it
    double bytes = 0;
    double offered = 0;
    int64_t now_ns = 0;
    for (int i = 0; i < 1500; ++i)
    {
        now_ns += random.Chance(0.02) ? Below(random, 100'000'000) : Below(random, 200'000);
        const auto size = static_cast<uint32_t>(40 + Below(random, 1461));
        offered += size;
        if (bucket.Passes(size, now_ns))
        {
            passed.emplace_back(now_ns, bytes);
            bytes += size;
            for (const auto& [since_ns, before] : passed)
            {
                const double most =
                    static_cast<double>(law.burst_bytes) + law.rate_bps / 8e9 * static_cast<double>(now_ns - since_ns);
                Require(bytes - before <= most * (1 + 1e-9), "no more than burst + rate * t passes");
            }
        }
    }
    Require(bytes < offered, "an overload is policed");
    TokenBucket full(law);
    uint64_t at_once = 0;
    while (full.Passes(100, 0))
    {
        at_once += 100;
    }
    Require(at_once == law.burst_bytes / 100 * 100, "the whole burst passes at once");
}

Link
LinkWith(Queue queue)
{
    Link link;
    link.rate_bps = 12e6; // a full packet a millisecond
    link.queue = std::move(queue);
    return link;
}

constexpr FqCoDel FQ_CODEL{{5'000'000, 100'000'000}, FULL_BYTES};
constexpr Cake CAKE{100'000'000};

/** Flows that do not respond: packets of `every_ns` each, for `seconds`, through the queue at 12 Mbit/s. */
struct Outcome
{
    std::vector<uint64_t> carried_bytes;
    std::vector<uint64_t> put;
    uint64_t queued = 0;
    Counts counts;
};

Outcome
Overload(const Queue& queue, const std::vector<TestPacket>& flows, const std::vector<int64_t>& every_ns, double seconds)
{
    PacketQueue<TestPacket> packets;
    packets.Reset(LinkWith(queue), flows.size(), FULL_BYTES, 1);
    Outcome outcome{std::vector<uint64_t>(flows.size()), std::vector<uint64_t>(flows.size()), 0, {}};
    std::vector<int64_t> next_ns(flows.size(), 0);
    std::vector<uint64_t> last_taken(flows.size(), 0);
    int64_t free_ns = 0; ///< when the server takes a packet; NEVER_NS: it found none
    uint64_t taken = 0;
    const auto end_ns = static_cast<int64_t>(seconds * 1e9);
    for (;;)
    {
        const auto flow = static_cast<std::size_t>(std::ranges::min_element(next_ns) - next_ns.begin());
        const int64_t now_ns = std::min(next_ns[flow], free_ns);
        if (now_ns >= end_ns)
        {
            break;
        }
        if (free_ns <= next_ns[flow])
        {
            TestPacket packet;
            if (packets.Dequeue(packet, now_ns, outcome.counts))
            {
                Require(packet.number > last_taken[packet.flow], "a flow's packets keep their order");
                last_taken[packet.flow] = packet.number;
                outcome.carried_bytes[packet.flow] += packet.bytes;
                free_ns = now_ns + packet.bytes * 8'000'000'000LL / 12'000'000;
                ++taken;
            }
            else
            {
                free_ns = NEVER_NS;
            }
            continue;
        }
        TestPacket packet = flows[flow];
        packet.queued_ns = now_ns;
        packet.flow = flow;
        packet.number = ++outcome.put[flow];
        packets.Put(packet, now_ns, outcome.counts);
        next_ns[flow] += every_ns[flow];
        free_ns = free_ns == NEVER_NS ? now_ns : free_ns;
    }
    const uint64_t put = std::accumulate(outcome.put.begin(), outcome.put.end(), uint64_t{0});
    outcome.queued = packets.Size();
    Require(put == taken + outcome.counts.dropped.size() + packets.Size(), "each packet is carried, dropped or queued");
    Require(packets.Size() > 0 || packets.Bytes() == 0, "an empty queue has no bytes");
    return outcome;
}

TestPacket
Capable()
{
    return {.ect = true};
}

/** fq_codel and CAKE share bytes equally between flows that do not respond, whatever their rates and packets are. */
void
CheckFairness(Random& random, const decltype(Queue::discipline)& discipline)
{
    Queue queue;
    queue.discipline = discipline;
    queue.size_packets = 50 + static_cast<uint64_t>(Below(random, 500));
    const std::vector<TestPacket> flows = {{}, {}, {.bytes = 300}, {}};
    // The last one sends less than its share, the others more.
    const std::vector<int64_t> every_ns = {500'000 + Below(random, 1'000'000), 1'500'000, 150'000, 10'000'000};
    const Outcome outcome = Overload(queue, flows, every_ns, 10);
    const double share = (10 * 12e6 / 8 - static_cast<double>(outcome.carried_bytes[3])) / 3;
    for (std::size_t flow = 0; flow < 3; ++flow)
    {
        Require(std::abs(static_cast<double>(outcome.carried_bytes[flow]) / share - 1) < 0.01,
                "unresponsive flows have equal shares");
    }
    Require(outcome.carried_bytes[3] >= (outcome.put[3] - 2) * FULL_BYTES, "a flow below its share loses nothing");
    Require(outcome.queued <= *queue.size_packets, "the limit is the whole queue's");
}

/** A queue that takes trains holds and drops the same as one that takes their packets one by one. */
void
CheckTrains(Random& random)
{
    Queue queue;
    (random.Chance(0.5) ? queue.size_packets : queue.size_bytes) = 1 + static_cast<uint64_t>(Below(random, 40));
    queue.size_bytes = queue.size_bytes ? std::optional(*queue.size_bytes * FULL_BYTES / 2) : std::nullopt;
    PacketQueue<TestPacket> by_train;
    by_train.Reset(LinkWith(queue), 1, FULL_BYTES, 1);
    PacketQueue<TestPacket> one_by_one = by_train;
    Counts of_trains;
    Counts of_packets;
    const auto numbers = [](const std::vector<TestPacket>& packets) {
        std::vector<uint64_t> result;
        std::ranges::transform(packets, std::back_inserter(result), &TestPacket::number);
        return result;
    };
    uint64_t number = 0;
    for (int i = 0; i < 100; ++i)
    {
        const auto pkts = static_cast<uint64_t>(Below(random, 12));
        const auto at = [&](uint64_t ahead) { return TestPacket{.number = number + ahead}; };
        by_train.PutTrain(pkts, at, of_trains);
        for (uint64_t ahead = 0; ahead < pkts; ++ahead)
        {
            one_by_one.Put(at(ahead), 0, of_packets);
        }
        number += pkts;
        Require(by_train.Size() == one_by_one.Size() && by_train.Bytes() == one_by_one.Bytes(), "a train fills alike");
        for (auto left = Below(random, 12); left > 0; --left)
        {
            TestPacket first;
            TestPacket second;
            Require(by_train.Dequeue(first, 0, of_trains) == one_by_one.Dequeue(second, 0, of_packets), "and empties");
            Require(first.number == second.number, "a train keeps its order");
        }
    }
    Require(numbers(of_trains.dropped) == numbers(of_packets.dropped), "what does not fit of a train is dropped");
}

/** A full fq_codel takes from the front of the fattest flow: half of its bytes, 64 packets at most. */
void
CheckForcedDrops(Random& random)
{
    Queue queue;
    queue.discipline = FQ_CODEL;
    queue.size_packets = 40 + static_cast<uint64_t>(Below(random, 300));
    PacketQueue<TestPacket> packets;
    packets.Reset(LinkWith(queue), 2, FULL_BYTES, 1);
    Counts counts;
    TestPacket packet;
    packet.flow = 1;
    packets.Put(packet, 0, counts);
    packet.flow = 0;
    for (uint64_t i = 0; i < *queue.size_packets; ++i)
    {
        packet.number = i;
        packets.Put(packet, 0, counts);
    }
    const uint64_t fat = *queue.size_packets;
    Require(counts.dropped.size() == std::min<uint64_t>((fat + 1) / 2, 64),
            "half of the fattest flow, 64 packets at most");
    for (std::size_t i = 0; i < counts.dropped.size(); ++i)
    {
        Require(counts.dropped[i].flow == 0 && counts.dropped[i].number == i, "from the front of the fattest flow");
    }
}

/** CE marks replace drops, once for each packet. */
void
CheckMarks(Random& random)
{
    Queue queue;
    const decltype(Queue::discipline) disciplines[] = {CoDel{5'000'000, 100'000'000}, FQ_CODEL, CAKE};
    queue.discipline = disciplines[Below(random, 3)];
    queue.size_packets = 100'000;
    queue.ecn = true;
    const auto run = [&queue](TestPacket packet) { return Overload(queue, {packet}, {900'000}, 5).counts; };
    Require(run(Capable()).dropped.empty() && !run(Capable()).marked.empty(), "CoDel marks what can be marked");
    Require(run({}).marked.empty() && !run({}).dropped.empty(), "and drops the rest");
    queue.ecn = false;
    Require(run(Capable()).marked.empty() && !run(Capable()).dropped.empty(), "without ECN it drops all");

    Queue red;
    red.discipline = Red{20'000, 60'000, 0.1};
    red.size_bytes = 100'000;
    red.ecn = true;
    const Counts early = Overload(red, {Capable()}, {990'000}, 3.5).counts;
    Require(!early.marked.empty() && early.dropped.empty(), "RED marks where it would drop early");
    const Counts hard = Overload(red, {Capable()}, {500'000}, 5).counts;
    Require(!hard.marked.empty() && !hard.dropped.empty(), "above max it drops");
}

/** At a steady queue RED's early drops are as far apart as `gaps` says: 2/3 p of the packets with ns-3's, 2 p with
 * Linux's. */
void
CheckGaps(Red::Gaps gaps, uint64_t seed)
{
    constexpr uint64_t MIN_BYTES = 20'000;
    constexpr uint64_t MAX_BYTES = 60'000;
    constexpr int PACKETS = 200'000;
    constexpr double P = 0.02 / 2; // half-way between the thresholds
    RedState red(Red{MIN_BYTES, MAX_BYTES, 0.02, gaps}, 12e6, FULL_BYTES, seed);
    red.FoundEmpty(0);
    const auto judge = [&red] { return red.Judge(FULL_BYTES, (MIN_BYTES + MAX_BYTES) / 2, 0); };
    for (int i = 0; i < 20'000; ++i) // until the average is the queue
    {
        judge();
    }
    std::vector<int> drops;
    for (int i = 0; i < PACKETS; ++i)
    {
        if (judge() == RedState::Verdict::EARLY)
        {
            drops.push_back(i);
        }
    }
    const bool is_linux = gaps == Red::Gaps::LINUX;
    const double rate = static_cast<double>(drops.size()) / PACKETS;
    Require(std::abs(rate / (P * (is_linux ? 2 : 2.0 / 3)) - 1) < 0.1, "two drops in 3/p packets, or in 1/p");
    for (std::size_t i = 1; i < drops.size(); ++i)
    {
        const double gap = (drops[i] - drops[i - 1]) * P;
        Require(is_linux ? gap < 1.02 : gap > 0.98 && gap < 2.02, "gaps are uniform from 1/p to 2/p, or up to 1/p");
    }
}

/** PIE's probability is RFC 8033's (section 4.2, appendix A), the drops are as far apart as there, and it holds its
 * target against what does not respond. */
void
CheckPie(Random& random, uint64_t seed)
{
    constexpr int64_t PERIOD_NS = 15'000'000;
    constexpr std::pair<double, double> RFC_SCALES[] = {{0.1, 2},      {0.01, 8},      {0.001, 32},
                                                        {0.0001, 128}, {0.00001, 512}, {0.000001, 2048}};
    PieState pie({PERIOD_NS}, 0, seed, "link");
    double p = 0;
    double old = 0;
    int64_t now_ns = 0;
    const auto wait_a_period = [&](double qdelay) {
        pie.NoteDeparture(std::llround(qdelay * 1e9), 1, now_ns);
        now_ns += PERIOD_NS;
        pie.RunUntil(now_ns, 1);
    };
    for (int i = 0; i < 5000; ++i)
    {
        const double most = i % 200 < 100 ? 0.1 : 0.016;
        const double qdelay = static_cast<double>(1'000'000 + Below(random, std::llround(most * 1e9))) / 1e9;
        wait_a_period(qdelay);
        double scale = 1;
        for (const auto& [below, by] : RFC_SCALES)
        {
            scale = p < below ? by : scale;
        }
        double step = (0.125 * (qdelay - 0.015) + 1.25 * (qdelay - old)) / scale;
        step = p >= 0.1 && step > 0.02 ? 0.02 : step;
        p = std::clamp(p + step, 0.0, 1.0);
        old = qdelay;
        Require(std::abs(pie.Probability() - p) < 1e-12, "the drop probability is the RFC's");
    }
    for (int i = 0; i < 12 || pie.Probability() < 0.03; ++i) // the burst allowance is used up
    {
        wait_a_period(0.1);
    }
    int passed = 0;
    int drops = 0;
    for (int i = 0; i < 100'000; ++i)
    {
        ++passed;
        if (pie.DropsEarly(1))
        {
            pie.NoteDrop();
            Require(drops == 0 || (passed * pie.Probability() > 0.8499 && (passed - 1) * pie.Probability() < 8.5),
                    "drops are as far apart as their probabilities' sum says");
            passed = 0;
            ++drops;
        }
    }
    Require(drops > 500, "PIE drops");

    Queue queue;
    queue.discipline = Pie{PERIOD_NS};
    queue.size_packets = 1000;
    const Outcome outcome = Overload(queue, {{}}, {833'333}, 60); // six packets for five
    const double share = static_cast<double>(outcome.counts.dropped.size()) / static_cast<double>(outcome.put[0]);
    Require(std::abs(share - 1.0 / 6) < 0.005 && outcome.queued < 40, "what is too much is dropped, at the target");
    Require(Overload(queue, {{}}, {1'000'000}, 60).counts.dropped.empty(), "a link that is just full loses nothing");
    queue.ecn = true;
    const Counts marked = Overload(queue, {Capable()}, {833'333}, 60).counts;
    Require(!marked.marked.empty() && !marked.dropped.empty(), "marks stand for drops up to a tenth");
}

/** tc's presets and what sch_cake derives from a rate: a target of 1.5 full packets, a quantum of 2^-12 s of bytes. */
void
CheckCakeTimes()
{
    constexpr std::pair<int64_t, int64_t> PRESETS_US[] = {
        {100, 5}, {1000, 50}, {10'000, 500}, {30'000, 1500}, {100'000, 5000}, {300'000, 15'000}, {1'000'000, 50'000}};
    for (const auto& [rtt_us, target_us] : PRESETS_US)
    {
        const CakeTimes fast(Cake{rtt_us * 1000}, 100e9, FULL_BYTES);
        Require(fast.target_ns == target_us * 1000 && fast.interval_ns == rtt_us * 1000, "a target is rtt / 20");
        Require(fast.quantum_bytes == 1514, "a quantum is a frame at most");
    }
    const CakeTimes slow(CAKE, 1e6, FULL_BYTES);
    Require(slow.packet_ns == 12'000'000 && slow.target_ns == 18'000'000 && slow.interval_ns == 113'000'000 &&
                slow.quantum_bytes == 300,
            "at 1 Mbit/s the target is 1.5 packets, and the interval grows with it");
    const CakeTimes slowest(CAKE, 100e3, FULL_BYTES);
    Require(slowest.interval_ns == 2 * slowest.target_ns, "an interval is two targets at least");
    Require(CakeTimes(CAKE, 24e6, FULL_BYTES).quantum_bytes == 732, "3 MB/s in 2^-12 s");
}

/** Marks come interval / sqrt(count) apart, and when the wait is short the count falls by the same steps. */
void
CheckCobalt(uint64_t seed)
{
    constexpr int64_t EVERY_NS = 10'000;
    const CakeTimes times(CAKE, 1e9, FULL_BYTES);
    Random random(seed, "cobalt");
    Cobalt cobalt;
    int64_t now_ns = 0;
    int marks = 0;
    const auto mark = [&] { return ++marks > 0; };
    const auto pass = [&](int64_t waited_ns) {
        now_ns += EVERY_NS;
        Require(!cobalt.Drops(times, waited_ns, now_ns, random, mark), "a mark stands for a drop");
    };
    pass(5'000'000);
    Require(cobalt.Count() == 0, "the target is not too long");
    pass(5'000'001);
    pass(5'000'001);
    Require(marks == 1 && cobalt.Count() == 2, "the first mark of a flow comes at once, as there");
    double from_ns = static_cast<double>(now_ns - EVERY_NS); // bounds of the time that is due
    double until_ns = from_ns;
    const auto step = [&] {
        const uint32_t count = std::max(cobalt.Count(), 1U);
        const double step_ns = static_cast<double>(times.interval_ns) / std::sqrt(count);
        from_ns += step_ns * (1 - (count < 16 ? 1e-9 : 0.45 / count / count)) - 1; // what one step of Newton's errs
        until_ns += step_ns;
    };
    const auto check = [&](int64_t waited_ns, uint32_t then, const char* law) {
        step();
        for (const uint32_t before = cobalt.Count(); cobalt.Count() == before;)
        {
            pass(waited_ns);
        }
        const auto now = static_cast<double>(now_ns);
        Require(now >= from_ns && now < until_ns + EVERY_NS + 1 && cobalt.Count() == then, law);
    };
    while (cobalt.Count() < 400)
    {
        check(6'000'000, cobalt.Count() + 1, "marks come sooner by the root of their count");
    }
    Require(marks == 399, "each mark counts");
    while (cobalt.Count() > 0)
    {
        check(1'000'000, cobalt.Count() - 1, "the count falls as slowly as it rose");
    }
    Require(marks == 399 && cobalt.IsActive(now_ns + times.interval_ns - 1) &&
                !cobalt.IsActive(now_ns + times.interval_ns),
            "after an interval of rest it is forgotten");
}

/** BLUE's probability rises by 1/256 where the queue overflows and falls by 1/4096 where it is empty, once a target. */
void
CheckBlue(uint64_t seed)
{
    const CakeTimes times(CAKE, 1e9, FULL_BYTES);
    Cobalt cobalt;
    int64_t now_ns = 0;
    for (int i = 1; i <= 300; ++i)
    {
        now_ns += times.target_ns + 1;
        cobalt.NoteOverflow(times, now_ns);
        cobalt.NoteOverflow(times, now_ns + times.target_ns);
        Require(cobalt.BlueProbability() == std::min(i / 256.0, 1 - 0x1p-32), "overflows raise it");
    }
    Random random(seed, "blue");
    Require(cobalt.Drops(times, 0, now_ns, random, [] { return true; }), "it drops what could be marked");
    for (int i = 1; i <= 1024; ++i)
    {
        now_ns += times.target_ns + 1;
        cobalt.NoteEmpty(times, now_ns);
        cobalt.NoteEmpty(times, now_ns + times.target_ns);
        Require(cobalt.BlueProbability() == 1 - 0x1p-32 - i / 4096.0, "what is empty lowers it");
    }
    int drops = 0;
    for (int i = 0; i < 10'000; ++i)
    {
        drops += cobalt.Drops(times, 0, now_ns, random, [] { return false; }) ? 1 : 0;
    }
    Require(std::abs(drops - 7500) < 200, "it is a probability");
}

/** A flow that begins goes first, the last packet of a flow is never dropped, a full queue takes from the longest. */
void
CheckCake()
{
    Queue queue;
    queue.discipline = CAKE;
    queue.size_packets = 12;
    PacketQueue<TestPacket> packets;
    packets.Reset(LinkWith(queue), 3, FULL_BYTES, 1);
    Counts counts;
    TestPacket packet;
    const auto put = [&](std::size_t flow, uint64_t number, int64_t now_ns) {
        packet.flow = flow;
        packet.number = number;
        packet.queued_ns = now_ns;
        packets.Put(packet, now_ns, counts);
    };
    for (uint64_t number = 1; number <= 10; ++number)
    {
        put(0, number, 0);
    }
    for (int i = 0; i < 3; ++i)
    {
        Require(packets.Dequeue(packet, 0, counts) && packet.flow == 0, "alone it has all");
    }
    put(1, 1, 0);
    Require(packets.Dequeue(packet, 0, counts) && packet.flow == 1, "a flow that begins goes first");
    for (uint64_t number = 1; number <= 10; ++number)
    {
        put(2, number, 0);
    }
    Require(packets.Size() == 12 && counts.dropped.size() == 5, "the limit is the whole queue's");
    const TestPacket& first = counts.dropped.front();
    Require(first.flow == 0 && first.number == 4, "from the front of the longest queue");
    Require(packets.PacketsWith(0).size() == 6 && packets.PacketsWith(2).size() == 6, "until both are as long");
    int64_t now_ns = 1'000'000'000;
    uint64_t last[3] = {};
    while (packets.Dequeue(packet, now_ns, counts))
    {
        last[packet.flow] = packet.number;
        now_ns += 100'000'000;
    }
    Require(last[0] == 10 && last[2] == 10 && packets.Bytes() == 0, "the last packet is not dropped");
}

/** The threshold says exactly which packets are marked. */
void
CheckThresholds(Random& random)
{
    const auto threshold = 1 + static_cast<uint64_t>(Below(random, 50));
    Queue queue;
    queue.size_packets = 100;
    (random.Chance(0.5) ? queue.ecn_threshold_packets : queue.ecn_threshold_bytes) = threshold;
    if (queue.ecn_threshold_bytes)
    {
        queue.ecn_threshold_bytes = threshold * FULL_BYTES;
    }
    PacketQueue<TestPacket> packets;
    packets.Reset(LinkWith(queue), 1, FULL_BYTES, 1);
    Counts counts;
    for (uint64_t i = 0; i < 100; ++i)
    {
        TestPacket packet = Capable();
        packet.number = i;
        packet.ect = i % 3 != 0;
        packets.Put(packet, 0, counts);
        const bool is_marked = !counts.marked.empty() && counts.marked.back().number == i;
        Require(is_marked == (packet.ect && i >= threshold), "a threshold marks what arrives at so long a queue");
    }
    Queue timed;
    timed.size_packets = 100;
    timed.ecn_threshold_ns = 5'000'000;
    packets.Reset(LinkWith(timed), 1, FULL_BYTES, 1);
    for (const int64_t wait_ns : {4'999'999, 5'000'000, 5'000'001})
    {
        packets.Put(Capable(), 0, counts);
        TestPacket packet;
        packets.Dequeue(packet, wait_ns, counts);
        Require(packet.is_marked == (wait_ns > 5'000'000), "a threshold of time marks what waited longer");
    }
}

/** The bottleneck with a clock: packets arrive at given times, and what it shows is kept at each event. */
class Server
{
  public:
    struct Shown
    {
        int64_t time_ns;
        double carried_bytes;
        double capacity_bytes;
    };

    Server(const Link& link, uint64_t seed)
    {
        Scenario scenario;
        scenario.mss_bytes = FULL_BYTES - HEADER_BYTES;
        scenario.flows.resize(1);
        m_measurement.Reset(scenario);
        m_bottleneck.Reset(link, 1, FULL_BYTES, seed);
    }

    void RunUntil(int64_t end_ns)
    {
        while (m_bottleneck.NextServiceNs() <= end_ns)
        {
            const int64_t now_ns = m_bottleneck.NextServiceNs();
            Show(now_ns);
            m_bottleneck.Serve(now_ns, m_measurement, [&](const TestPacket& packet, LinkDelay::Arrival) {
                departures_ns.push_back(now_ns);
                m_delivered_bytes += packet.bytes;
            });
            Show(now_ns);
        }
        Show(end_ns);
    }

    void Arrive(uint32_t bytes, int64_t now_ns)
    {
        TestPacket packet{.queued_ns = now_ns, .bytes = bytes};
        m_bottleneck.Arrive(packet, now_ns, m_measurement);
    }

    void Change(double rate_bps, int64_t now_ns)
    {
        const double before_bytes = m_bottleneck.InTransmission(now_ns).bytes;
        m_bottleneck.Change({.rate_bps = rate_bps}, now_ns, m_measurement);
        Require(m_bottleneck.InTransmission(now_ns).bytes >= before_bytes, "a change of the rate takes nothing back");
        Show(now_ns);
    }

    void Show(int64_t now_ns)
    {
        const double partly_sent_bytes = m_bottleneck.InTransmission(now_ns).bytes;
        Require(partly_sent_bytes >= 0, "no less than nothing of a packet has left");
        const double carried_bytes = static_cast<double>(m_delivered_bytes) + partly_sent_bytes;
        shown.push_back({now_ns, carried_bytes, m_bottleneck.CapacityBytes(now_ns)});
    }

    std::vector<int64_t> departures_ns;
    std::vector<Shown> shown;

  private:
    Measurement m_measurement;
    Bottleneck<TestPacket> m_bottleneck;
    uint64_t m_delivered_bytes = 0;
};

Link
PlainLink(double rate_bps)
{
    Queue queue;
    queue.size_packets = 60'000;
    Link link = LinkWith(queue);
    link.rate_bps = rate_bps;
    return link;
}

/** Packets back to back leave at the link's rate to the nanosecond, however fast it is. */
void
CheckBackToBack(Random& random)
{
    constexpr int PACKETS = 20'000;
    for (const double rate_bps : {400e9, 100e9, 7e6, std::pow(10, 6 + 5.6 * random.Uniform())})
    {
        Server server(PlainLink(rate_bps), 1);
        for (int i = 0; i < PACKETS; ++i)
        {
            server.Arrive(FULL_BYTES, 0);
        }
        server.RunUntil(static_cast<int64_t>(PACKETS * FULL_BYTES * 8e9 / rate_bps) + 2);
        Require(server.departures_ns.size() == PACKETS, "all packets leave in their time");
        for (int i = 0; i < PACKETS; ++i)
        {
            const double exact_ns = (i + 1.0) * FULL_BYTES * 8e9 / rate_bps;
            const auto at_ns = static_cast<double>(server.departures_ns[static_cast<std::size_t>(i)]);
            Require(at_ns > exact_ns - 0.1 && at_ns < exact_ns + 1.1, "a packet leaves at its end, rounded up");
        }
    }
}

/** The rest of a packet takes the new rate; in an outage nothing moves. */
void
CheckChangesOfRate()
{
    Server server(PlainLink(12e6), 1); // a packet a millisecond
    server.Arrive(FULL_BYTES, 0);
    server.Arrive(FULL_BYTES, 0);
    server.Change(0, 250'000);
    server.Arrive(FULL_BYTES, 500'000'000);
    server.RunUntil(1'000'000'000);
    Require(server.departures_ns.empty(), "nothing leaves during an outage");
    server.Change(120e6, 1'000'000'000);
    server.RunUntil(2'000'000'000);
    Require(server.departures_ns == std::vector<int64_t>{1'000'075'000, 1'000'175'000, 1'000'275'000},
            "three quarters of the packet and the others take the new rate");
    server.Change(0, 2'000'000'000);
    server.Arrive(FULL_BYTES, 2'100'000'000);
    server.RunUntil(3'000'000'000);
    server.Change(12e6, 3'000'000'000);
    server.RunUntil(4'000'000'000);
    Require(server.departures_ns.back() == 3'001'000'000, "what arrives during an outage begins at its end");
}

/** Between any two moments the link carries no more than its capacity; with a packet waiting, no less. */
void
CheckCapacity(Random& random, bool has_trace)
{
    const double rate_bps = std::pow(10, 5 + 6.6 * random.Uniform());
    const double packet_ns = FULL_BYTES * 8e9 / rate_bps;
    Link link = PlainLink(rate_bps);
    if (has_trace)
    {
        link.trace.emplace();
        link.trace->period_ns = static_cast<int64_t>(20 * packet_ns);
        link.trace->opportunity_bytes = static_cast<uint64_t>(1 + Below(random, 4000));
        for (int i = 0; i < 10; ++i)
        {
            link.trace->times_ns.push_back(Below(random, link.trace->period_ns + 1));
        }
        std::ranges::sort(link.trace->times_ns);
    }
    Server server(link, 1);
    int64_t now_ns = 0;
    for (int i = 0; i < 600; ++i)
    {
        const auto wait_ns = static_cast<double>(Below(random, static_cast<int64_t>(4 * packet_ns) + 2));
        now_ns += static_cast<int64_t>(wait_ns);
        server.RunUntil(now_ns);
        if (!has_trace && random.Chance(0.3))
        {
            server.Change(random.Chance(0.3) ? 0 : rate_bps * (0.2 + 2 * random.Uniform()), now_ns);
        }
        for (int64_t left = Below(random, 4); left > 0; --left)
        {
            server.Arrive(static_cast<uint32_t>(40 + Below(random, 1461)), now_ns);
        }
        server.Show(now_ns);
    }
    for (std::size_t i = 0; i < server.shown.size(); ++i)
    {
        for (std::size_t j = i + 1; j < server.shown.size(); j += 1 + (j - i) / 8)
        {
            const double carried = server.shown[j].carried_bytes - server.shown[i].carried_bytes;
            const double capacity = server.shown[j].capacity_bytes - server.shown[i].capacity_bytes;
            Require(carried >= -1e-6 * FULL_BYTES, "what has left does not come back");
            Require(carried <= capacity + 1e-6 * FULL_BYTES, "no more leaves than the link can carry");
        }
    }
}

/** Late packets have their share; without reordering the order is kept, with it only late ones are overtaken. */
void
CheckJitter(Random& random, uint64_t seed)
{
    constexpr int PACKETS = 20'000;
    const double share = 0.02 + 0.3 * random.Uniform();
    for (const bool reorders : {false, true})
    {
        Link link;
        link.delay_ns = 3'000'000;
        link.jitter = Jitter{share, 7'000'000, reorders};
        LinkDelay delay(link, seed);
        std::array<int64_t, 2> last_ns{};
        int64_t latest_ns = 0;
        int late = 0;
        for (int i = 0; i < PACKETS; ++i)
        {
            const int64_t now_ns = i * 100'000'000LL; // apart, so that each delay shows
            const LinkDelay::Arrival arrival = delay.Send(now_ns);
            const bool is_late = arrival.at_ns - now_ns == 10'000'000;
            Require(is_late || arrival.at_ns - now_ns == 3'000'000, "a packet is late by the delay or not at all");
            Require(arrival.is_apart == (is_late && reorders), "only late packets may be overtaken");
            late += is_late;
        }
        Require(std::abs(late - PACKETS * share) < 4.5 * std::sqrt(PACKETS * share * (1 - share)),
                "late packets have their share");
        delay = LinkDelay(link, seed);
        bool was_overtaken = false;
        for (int i = 0; i < PACKETS; ++i)
        {
            const LinkDelay::Arrival arrival = delay.Send(i * 1'000'000LL);
            int64_t& last = last_ns[arrival.is_apart];
            Require(arrival.at_ns >= last, "each way keeps its order");
            was_overtaken |= arrival.at_ns < latest_ns;
            last = arrival.at_ns;
            latest_ns = std::max(latest_ns, arrival.at_ns);
        }
        Require(was_overtaken == reorders, "packets overtake each other if the jitter reorders");
    }
}

/** A packet takes the delay of its departure; a shorter one holds it back behind those before, or lets it overtake. */
void
CheckDelayTrace(Random& random, uint64_t seed)
{
    for (const bool reorders : {false, true})
    {
        Link link;
        link.delay_ns = Below(random, 5'000'000);
        link.reorders = reorders;
        link.delay_trace.emplace(DelayTrace{{}, 1 + Below(random, 20'000'000)});
        for (int64_t steps = 1 + Below(random, 20); steps > 0; --steps)
        {
            link.delay_trace->delays_ns.push_back(Below(random, 50'000'000));
        }
        LinkDelay delay(link, seed);
        int64_t latest_ns = 0;
        int64_t queue_ns = 0;
        int64_t path_ns = 0; // the latest arrival since the delay fell
        int64_t before_ns = 0;
        for (int64_t now_ns = 0; now_ns < 1'000'000'000; now_ns += 1 + Below(random, 3'000'000))
        {
            const auto step = static_cast<std::size_t>(now_ns / link.delay_trace->step_ns);
            const std::vector<int64_t>& steps = link.delay_trace->delays_ns;
            const int64_t delay_ns = link.delay_ns + steps[step % steps.size()];
            path_ns = std::max(delay_ns < before_ns && reorders ? 0 : path_ns, now_ns + delay_ns);
            before_ns = delay_ns;
            const LinkDelay::Arrival arrival = delay.Send(now_ns);
            Require(arrival.at_ns == path_ns, "a packet arrives after the delay, not before those of its path");
            Require(reorders || arrival.at_ns >= latest_ns, "without reordering the order is kept");
            Require(arrival.is_apart == (arrival.at_ns < queue_ns), "what overtakes is apart, and nothing else");
            queue_ns = std::max(queue_ns, arrival.is_apart ? 0 : arrival.at_ns);
            latest_ns = std::max(latest_ns, arrival.at_ns);
        }
    }
}

/** ACKs leave in their order: in slots at multiples of the time, in bursts by number or after the timeout. */
void
CheckGate(Random& random)
{
    const int64_t every_ns = 1 + Below(random, 20'000'000);
    const auto burst = 2 + static_cast<uint64_t>(Below(random, 10));
    for (const Acks& acks : {Acks(AckSlots{every_ns}), Acks(AckBursts{burst, every_ns})})
    {
        AckGate<std::pair<int, int64_t>> gate;
        gate.Reset(acks);
        const bool is_slots = std::holds_alternative<AckSlots>(acks);
        int64_t now_ns = 0;
        int next = 0;
        const auto release = [&](bool is_deadline) {
            const int64_t at_ns = is_deadline ? gate.DeadlineNs() : now_ns;
            int64_t first_ns = -1;
            uint64_t left = 0;
            gate.Release([&](const std::pair<int, int64_t>& ack) {
                first_ns = first_ns < 0 ? ack.second : first_ns;
                Require(ack.first == next++, "ACKs keep their order");
                Require(at_ns - ack.second <= every_ns, "no ACK waits longer than a slot or the timeout");
                ++left;
            });
            if (is_slots)
            {
                Require(at_ns % every_ns == 0, "no ACK leaves between slots");
            }
            else
            {
                Require(is_deadline ? left < burst && at_ns == first_ns + every_ns : left == burst,
                        "a burst is full or timed out");
            }
            Require(gate.DeadlineNs() == NEVER_NS, "nothing is held afterwards");
        };
        for (int i = 0; i < 2000; ++i)
        {
            now_ns += Below(random, every_ns / 2 + 2);
            if (gate.DeadlineNs() <= now_ns)
            {
                release(true);
            }
            if (gate.Put({i, now_ns}, now_ns))
            {
                release(false);
            }
        }
    }
}

/** CoDel's clock wraps after 73 minutes; a queue that drains in time then loses nothing. */
void
CheckClockOfCoDel()
{
    constexpr int64_t WRAP_NS = (int64_t{1} << 32) * 1024;
    CoDelState codel(CoDel{5'000'000, 100'000'000}, FULL_BYTES);
    bool may_drop = false;
    for (int64_t ms = -80; ms < 10; ++ms)
    {
        may_drop |= codel.MayDrop(6'000'000, 10 * FULL_BYTES, WRAP_NS + ms * 1'000'000);
    }
    Require(!may_drop, "CoDel waits an interval, also where its clock wraps");
    Require(codel.MayDrop(6'000'000, 10 * FULL_BYTES, WRAP_NS + 25'000'000), "and no longer");
}

/** Each fact of a stack is read as it was set, and no other one changes with it. */
void
CheckStackFacts()
{
    for (const StackFact& fact : StackFacts())
    {
        for (const int64_t value : fact.values)
        {
            Stack stack = StackOf(StackPreset::LINUX_6);
            fact.set(stack, value);
            Require(fact.get(stack) == value, "a fact is read as it was set");
            fact.set(stack, fact.values[static_cast<std::size_t>(StackPreset::LINUX_6)]);
            Require(stack == StackOf(StackPreset::LINUX_6), "and is alone in its place");
        }
    }
}

// ---- against brute force ------------------------------------------------------------------------------------

/** Every opportunity of the first rounds, one by one. */
void
CheckOpportunities(Random& random)
{
    constexpr uint64_t BYTES = 1500;
    constexpr int64_t ROUNDS = 5;
    const int64_t period = 1 + Below(random, 40);
    std::vector<int64_t> times(static_cast<std::size_t>(1 + Below(random, 30)));
    std::generate(times.begin(), times.end(), [&] { return Below(random, period + 1); });
    std::sort(times.begin(), times.end());
    std::vector<int64_t> all;
    for (int64_t round = 0; round <= ROUNDS; ++round)
    {
        for (const int64_t time : times)
        {
            all.push_back(round * period + time);
        }
    }
    const Opportunities opportunities(times, period, BYTES);
    for (int64_t now = 0; now < (ROUNDS - 1) * period; ++now)
    {
        const auto at = [&](int64_t time) { return BYTES * static_cast<uint64_t>(std::ranges::count(all, time)); };
        const auto next = opportunities.After(now);
        const auto later = [now](int64_t time) { return time > now; };
        std::vector<int64_t> ahead;
        std::ranges::copy_if(all, std::back_inserter(ahead), later);
        Require(next.time_ns == std::ranges::min(ahead), "After gives the first later time");
        Require(next.bytes == at(next.time_ns), "After gives all bytes of that time");
        const auto used = std::ranges::count_if(all, [now](int64_t time) { return time > 0 && time <= now; });
        Require(opportunities.BytesUntil(now) == BYTES * static_cast<uint64_t>(used), "BytesUntil counts (0, now]");
    }
}

void
CheckHistogram(Random& random)
{
    Histogram histogram;
    Histogram other;
    for (int fill = 0; fill < 3; ++fill)
    {
        histogram.Clear();
        other.Clear();
        const double share_of_other = random.Uniform();
        std::vector<int64_t> values(static_cast<std::size_t>(1 + Below(random, 500)));
        const double octaves = 37 * random.Uniform();
        std::generate(values.begin(), values.end(),
                      [&] { return static_cast<int64_t>(std::exp2(octaves * random.Uniform())); });
        double sum = 0;
        for (const int64_t value : values)
        {
            (random.Chance(share_of_other) ? other : histogram).Add(value);
            sum += static_cast<double>(value);
        }
        histogram.Add(other);
        std::sort(values.begin(), values.end());
        Require(histogram.Count() == values.size(), "Count");
        Require(histogram.MinMs() == static_cast<double>(values.front()) / 1e6, "MinMs is exact");
        const double mean = sum / static_cast<double>(values.size());
        Require(std::abs(histogram.MeanMs() * 1e6 - mean) <= 1e-9 * mean, "MeanMs is exact");
        for (const uint64_t percent : {1, 50, 95, 100})
        {
            const auto exact = static_cast<double>(values[(values.size() * percent + 99) / 100 - 1]);
            Require(std::abs(histogram.PercentileMs(percent) * 1e6 - exact) <= 0.004 * exact, "PercentileMs to 0.4 %");
        }
    }
}

void
CheckExponential(Random& random)
{
    constexpr int DRAWS = 200'000;
    double sum = 0;
    int above_two = 0;
    for (int i = 0; i < DRAWS; ++i)
    {
        const double draw = random.Exponential();
        sum += draw;
        above_two += draw > 2;
    }
    const double error = 5 / std::sqrt(DRAWS);
    Require(std::abs(sum / DRAWS - 1) < error, "the mean of exponential draws is 1");
    Require(std::abs(above_two / static_cast<double>(DRAWS) - std::exp(-2)) < error,
            "and they exceed 2 as they should");
}

/** The state after many ticks at once is that of tick after tick. */
void
CheckChain(Random& random)
{
    const GilbertElliott chain{random.Uniform(), random.Uniform()};
    for (const bool was_bad : {false, true})
    {
        double bad = was_bad;
        for (uint64_t ticks = 0; ticks < 40; ++ticks)
        {
            Require(std::abs(BadAfter(chain, was_bad, ticks) - bad) < 1e-12, "ticks at once are ticks one by one");
            bad = bad * (1 - chain.bad_to_good) + (1 - bad) * chain.good_to_bad;
        }
    }
    Require(BadAfter({}, true, 1000) == 1 && BadAfter({}, false, 1000) == 0, "a frozen chain stays");
}

/** Losses of packets that come a tick apart follow packets' clock; after a long silence the chain has forgotten. */
void
CheckClocks(Random& random)
{
    using Clock = GilbertElliott::Clock;
    constexpr int PACKETS = 200'000;
    constexpr int64_t TICK_NS = 1000;
    const GilbertElliott bursts{0.01, 0.2, 0.0, 1.0, Clock::TIME};
    const double share = 0.01 / 0.21;
    const auto seed = static_cast<uint64_t>(random.Uniform() * 1e9);
    const auto lost_share = [&](Clock clock, int64_t gap_ns, double& again) {
        GilbertElliott chain = bursts;
        chain.clock = clock;
        LossModel model(chain, TICK_NS, seed);
        int lost = 0;
        int both = 0;
        bool was_lost = false;
        for (int i = 1; i <= PACKETS; ++i)
        {
            const bool is_lost = model.IsLost(i * gap_ns);
            lost += is_lost;
            both += is_lost && was_lost;
            was_lost = is_lost;
        }
        again = static_cast<double>(both) / lost;
        return static_cast<double>(lost) / PACKETS;
    };
    const double error = 5 * std::sqrt(share * (1 + 2 / 0.21) / PACKETS); // losses of one stay go together
    double again = 0;
    for (const Clock clock : {Clock::PACKET, Clock::TIME})
    {
        Require(std::abs(lost_share(clock, TICK_NS, again) - share) < error, "the share of losses is the chain's");
        Require(std::abs(again - 0.8) < 0.03, "and a loss is followed by another as often as it stays bad");
    }
    Require(std::abs(lost_share(Clock::TIME, 1000 * TICK_NS, again) - share) < error, "in silence as well");
    Require(std::abs(again - share) < 0.03, "after which nothing of the last state is left");
    lost_share(Clock::PACKET, 1000 * TICK_NS, again);
    Require(std::abs(again - 0.8) < 0.03, "but by the packet's clock it is");
}

/** Segments of a source come at its rate while it is on, and after each burst it is off for as long as it should be. */
void
CheckWriteTimes(Random& random)
{
    constexpr uint32_t SEGMENT_BYTES = 1000;
    const double rate_bps = 1e5 * std::exp(7 * random.Uniform());
    const double gap_ns = SEGMENT_BYTES * 8e9 / rate_bps;
    const int64_t start_ns = Below(random, 1'000'000'000);
    Flow flow;
    flow.app = Cbr{rate_bps};
    WriteTimes steady(flow, SEGMENT_BYTES, 1);
    int64_t time_ns = start_ns;
    for (int write = 1; write < 1000; ++write)
    {
        time_ns = steady.NextNs(time_ns);
        Require(std::abs(static_cast<double>(time_ns - start_ns) - write * gap_ns) < 1, "no rounding error adds up");
    }
    const auto on_ns = static_cast<int64_t>(gap_ns * (1 + 20 * random.Uniform()));
    const int64_t off_ns = 1 + Below(random, 1'000'000'000);
    flow.app = OnOff{rate_bps, on_ns, off_ns, false};
    WriteTimes bursts(flow, SEGMENT_BYTES, 1);
    for (int64_t burst_ns = start_ns; burst_ns < start_ns + 10 * (on_ns + off_ns); burst_ns += on_ns + off_ns)
    {
        int writes = 0;
        for (time_ns = burst_ns; time_ns < burst_ns + on_ns; time_ns = bursts.NextNs(time_ns))
        {
            ++writes;
        }
        Require(time_ns == burst_ns + on_ns + off_ns, "a burst begins after the one before and its pause");
        Require(writes == static_cast<int>(std::ceil(static_cast<double>(on_ns) / gap_ns)), "and is full of segments");
    }
    constexpr int BURSTS = 2000;
    flow.app = OnOff{rate_bps, static_cast<int64_t>(gap_ns / 100), static_cast<int64_t>(100 * gap_ns), true};
    WriteTimes random_bursts(flow, SEGMENT_BYTES, static_cast<uint64_t>(Below(random, 1'000'000)));
    time_ns = 0;
    for (int burst = 0; burst < BURSTS; ++burst)
    {
        time_ns = random_bursts.NextNs(time_ns);
    }
    const double mean_ns = static_cast<double>(time_ns) / BURSTS;
    Require(std::abs(mean_ns / (100 * gap_ns) - 1) < 6 / std::sqrt(BURSTS), "random pauses have their mean");
}

/** Segments of an sk_buff are lost together, whatever of another flow is between them; others one by one. */
void
CheckSkbs(bool is_one, uint64_t seed)
{
    constexpr double RATE = 0.1;
    constexpr int SKBS = 20'000;
    constexpr uint64_t SEGMENTS = 3;
    Link link = LinkWith({});
    link.loss = Bernoulli{RATE};
    link.loses_skbs = true;
    Scenario scenario;
    scenario.flows.resize(2);
    Measurement measurement(scenario);
    Bottleneck<TestPacket> bottleneck;
    bottleneck.Reset(link, 2, FULL_BYTES, seed);
    std::array<uint64_t, SEGMENTS + 1> skbs_by_delivered{};
    for (int skb = 0; skb < SKBS; ++skb)
    {
        std::array<uint64_t, 2> delivered{};
        for (std::size_t i = 0; i < 2 * SEGMENTS; ++i)
        {
            const auto number = static_cast<uint32_t>(skb) % SKB_NUMBERS;
            bottleneck.Arrive({.flow = i % 2, .skb = is_one ? number : SKB_NUMBERS}, 0, measurement);
        }
        while (bottleneck.NextServiceNs() != NEVER_NS)
        {
            bottleneck.Serve(bottleneck.NextServiceNs(), measurement,
                             [&](const TestPacket& packet, LinkDelay::Arrival) { ++delivered[packet.flow]; });
        }
        ++skbs_by_delivered[delivered[0]];
        ++skbs_by_delivered[delivered[1]];
    }
    for (std::size_t pkts = 0; pkts <= SEGMENTS; ++pkts)
    {
        const double one_by_one =
            std::pow(1 - RATE, pkts) * std::pow(RATE, SEGMENTS - pkts) * (pkts % SEGMENTS ? 3 : 1);
        const double together = pkts == 0 ? RATE : pkts == SEGMENTS ? 1 - RATE : 0;
        const double chance = is_one ? together : one_by_one;
        const double off = static_cast<double>(skbs_by_delivered[pkts]) - 2 * SKBS * chance;
        Require(std::abs(off) <= 5 * std::sqrt(2 * SKBS * chance * (1 - chance)),
                "sk_buffs are lost whole, or segments");
    }
}

} // namespace

int
main(int argc, char** argv)
{
    const uint64_t seed = Number(1, argc, argv);
    Random random(seed, "laws");
    CheckPolicer(random);
    CheckFairness(random, FQ_CODEL);
    CheckFairness(random, CAKE);
    CheckForcedDrops(random);
    CheckMarks(random);
    CheckGaps(Red::Gaps::NS3, seed);
    CheckGaps(Red::Gaps::LINUX, seed);
    CheckThresholds(random);
    CheckBackToBack(random);
    CheckChangesOfRate();
    for (int i = 0; i < 20; ++i)
    {
        CheckCapacity(random, i % 2 == 0);
    }
    CheckJitter(random, seed);
    CheckDelayTrace(random, seed);
    CheckGate(random);
    CheckClockOfCoDel();
    CheckStackFacts();
    random = Random(seed, "test");
    for (int round = 0; round < 200; ++round)
    {
        CheckChain(random);
        CheckOpportunities(random);
        CheckHistogram(random);
        CheckWriteTimes(random);
    }
    CheckExponential(random);
    CheckClocks(random);
    for (int i = 0; i < 50; ++i)
    {
        CheckTrains(random);
    }
    CheckPie(random, seed);
    CheckCakeTimes();
    CheckCobalt(seed);
    CheckBlue(seed);
    CheckCake();
    CheckSkbs(true, seed);
    CheckSkbs(false, seed);
    return 0;
}
