// SPDX-License-Identifier: GPL-2.0-only
//
// The path between the hosts, without hosts and without a clock: when packets are due, what becomes of their bytes, and
// what is measured of them. Exits 1 at the first broken law.
//
// usage: path_laws EXPERIMENT

#include "path.hpp"
#include "program.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

using namespace bbrgym;

namespace
{

constexpr uint32_t MSS = 1448;
constexpr uint32_t IP_BYTES = MSS + HEADER_BYTES;
constexpr double RATE_BPS = 10e6;
constexpr int64_t MS = 1'000'000;
constexpr uint32_t FIRST_SEQUENCE = 0xffff'f000; // wraps soon

/** The bytes of a packet with a correct IP checksum, and SACK blocks if there are any. */
std::vector<uint8_t>
Bytes(uint32_t sequence, uint32_t acknowledged, uint32_t payload_bytes, uint8_t ecn = 0,
      std::vector<SequenceRange> blocks = {})
{
    const std::size_t options = blocks.empty() ? 0 : 4 + 8 * blocks.size();
    std::vector<uint8_t> bytes(40 + options + payload_bytes);
    const auto put = [&bytes](std::size_t at, uint32_t value, int count) {
        for (int i = 0; i < count; ++i)
        {
            bytes[at + static_cast<std::size_t>(i)] = static_cast<uint8_t>(value >> (8 * (count - 1 - i)));
        }
    };
    put(0, 0x45, 1);
    put(1, ecn, 1);
    put(2, static_cast<uint32_t>(bytes.size()), 2);
    put(8, 64, 1);
    put(9, 6, 1);
    put(12, 0xC6120001, 4);
    put(16, 0xC6120002, 4);
    put(20, 40'000, 2);
    put(22, 10'000, 2);
    put(24, sequence, 4);
    put(28, acknowledged, 4);
    put(32, static_cast<uint32_t>((20 + options) / 4) << 4, 1);
    put(33, 0x10, 1);
    if (!blocks.empty())
    {
        put(40, 0x0101, 2);
        put(42, 5, 1);
        put(43, static_cast<uint32_t>(2 + 8 * blocks.size()), 1);
        for (std::size_t i = 0; i < blocks.size(); ++i)
        {
            put(44 + 8 * i, blocks[i].begin, 4);
            put(48 + 8 * i, blocks[i].end, 4);
        }
    }
    uint32_t sum = 0;
    for (std::size_t i = 0; i < 20; i += 2)
    {
        sum += static_cast<uint32_t>(bytes[i] << 8 | bytes[i + 1]);
    }
    sum = (sum & 0xffff) + (sum >> 16);
    put(10, ~((sum & 0xffff) + (sum >> 16)) & 0xffff, 2);
    return bytes;
}

WirePacket
Packet(const std::vector<uint8_t>& bytes, uint32_t flow = 0)
{
    auto packet = WirePacket::Parse(bytes);
    Require(packet.has_value(), "a packet is parsed");
    packet->flow = flow;
    return *packet;
}

WirePacket
Data(uint64_t index, uint32_t flow = 0)
{
    return Packet(Bytes(FIRST_SEQUENCE + static_cast<uint32_t>(index * MSS), 1, MSS), flow);
}

WirePacket
Ack(uint64_t next, uint32_t flow = 0, std::vector<SequenceRange> blocks = {})
{
    return Packet(Bytes(1, FIRST_SEQUENCE + static_cast<uint32_t>(next * MSS), 0, 0, std::move(blocks)), flow);
}

Scenario
OneFlow(int64_t rtt_ns, int64_t link_delay_ns, uint64_t queue_packets)
{
    Scenario scenario;
    scenario.duration_ns = 100'000 * MS;
    scenario.mss_bytes = MSS;
    scenario.link.rate_bps = RATE_BPS;
    scenario.link.delay_ns = link_delay_ns;
    scenario.link.queue.size_packets = queue_packets;
    scenario.flows.push_back({.name = "flow", .rtt_ns = rtt_ns, .stop_ns = scenario.duration_ns});
    return scenario;
}

struct Delivery
{
    WirePacket packet;
    int64_t due_ns;
};

class Host : public PathHost
{
  public:
    void ReachReceiver(const WirePacket& packet, int64_t due_ns) override { receiver.push_back({packet, due_ns}); }
    void ReachSender(const WirePacket& packet, int64_t due_ns) override { sender.push_back({packet, due_ns}); }
    SenderState ReadSender(std::size_t) const override { return {}; }
    Punctuality ReadLateness() const override { return {}; }

    std::vector<Delivery> receiver;
    std::vector<Delivery> sender;
};

struct Bench
{
    explicit Bench(const Scenario& scenario, uint64_t seed = 1)
        : path(std::make_shared<const Scenario>(scenario), seed, host)
    {}

    FlowStats Interval()
    {
        std::vector<double> flows(std::size(FLOW_STAT_FIELDS));
        std::vector<double> link(std::size(LINK_STAT_FIELDS));
        path.TakeInterval(flows, link);
        return ReadRow<FlowStats>(flows, 0);
    }

    Host host;
    Path path;
};

/** A packet alone is due after access, transmission and link; its ACK after the rest of the RTT. */
void
Delays()
{
    Bench bench(OneFlow(40 * MS, 7 * MS, 10));
    bench.path.RunUntil(0);
    bench.path.FromSender(Data(0), 5 * MS);
    bench.path.RunUntil(1000 * MS);
    const auto transmission_ns = static_cast<int64_t>(std::ceil(IP_BYTES * 8e9 / RATE_BPS));
    Require(bench.host.receiver.size() == 1, "one packet arrives");
    Require(bench.host.receiver[0].due_ns == 5 * MS + 13 * MS + transmission_ns + 7 * MS,
            "its time is the sum of the delays");
    bench.path.FromReceiver(Ack(1), 1000 * MS);
    bench.path.RunUntil(2000 * MS);
    Require(bench.host.sender.size() == 1 && bench.host.sender[0].due_ns == 1020 * MS, "the ACK takes half an RTT");
}

/** However seldom the host looks, packets are due at the same times, and at the link's rate. */
void
LookingSeldom()
{
    std::vector<int64_t> often;
    for (const int64_t step_ns : {MS / 10, 7 * MS, 400 * MS})
    {
        Bench bench(OneFlow(20 * MS, MS, 1000));
        for (uint64_t i = 0; i < 200; ++i)
        {
            bench.path.FromSender(Data(i), 0);
        }
        for (int64_t now_ns = 0; now_ns < 1000 * MS; now_ns += step_ns)
        {
            bench.path.RunUntil(now_ns);
        }
        std::vector<int64_t> due;
        for (const Delivery& delivery : bench.host.receiver)
        {
            due.push_back(delivery.due_ns);
        }
        often = often.empty() ? due : often;
        Require(due == often && due.size() == 200, "the times do not depend on when the host looks");
        const auto gap_ns = static_cast<int64_t>(std::ceil(IP_BYTES * 8e9 / RATE_BPS));
        Require(due.back() - due.front() == 199 * gap_ns, "a backlog leaves at the link's rate, exactly");
    }
}

/** What comes out is what went in, to the bit, payload of zeros included; drops are counted. */
void
Contents()
{
    Bench bench(OneFlow(20 * MS, MS, 50));
    for (uint64_t i = 0; i < 80; ++i)
    {
        bench.path.FromSender(Data(i), 0);
    }
    bench.path.RunUntil(1000 * MS);
    Require(bench.host.receiver.size() == 51, "a queue of 50 and one in transmission");
    for (uint64_t i = 0; i < 51; ++i)
    {
        const auto before = Data(i);
        const auto after = bench.host.receiver[i].packet;
        Require(std::ranges::equal(before.Headers(), after.Headers()) && after.PayloadBytes() == MSS,
                "headers stay as they are");
    }
    const FlowStats stats = bench.Interval();
    Require(stats.sent_pkts == 80 && stats.dropped_pkts == 29, "sent and dropped packets are counted");
}

/** A mark sets both ECN bits once and keeps the header's checksum right. */
void
Marks()
{
    for (uint8_t ecn = 0; ecn < 4; ++ecn)
    {
        auto packet = Packet(Bytes(1, 1, MSS, ecn));
        Require(packet.IsEcnCapable() == (ecn != 0), "not ECT alone is not capable");
        if (ecn != 0)
        {
            Require(packet.Mark() == (ecn != 3), "a mark is new unless it is there");
            Require(std::ranges::equal(packet.Headers(), Packet(Bytes(1, 1, MSS, 3)).Headers()),
                    "the checksum follows the mark");
        }
    }
}

/** Retransmissions, RTT samples and readable bytes of a loss that SACK reports, across the numbers' wrap. */
void
Taps()
{
    FlowTap tap;
    for (uint64_t i = 0; i < 8; ++i)
    {
        Require(!tap.Sent(Data(i), static_cast<int64_t>(i)), "new data are new");
    }
    Require(tap.Arrived(Data(0)) == MSS, "the first becomes readable");
    for (const uint64_t i : {2, 3, 5, 4, 3})
    {
        Require(tap.Arrived(Data(i)) == 0, "behind a gap nothing does");
    }
    Require(tap.Acknowledged(Ack(1), 100) == 100, "an ACK gives the RTT of what it acknowledges");
    const auto number = [](uint64_t i) { return FIRST_SEQUENCE + static_cast<uint32_t>(i * MSS); };
    Require(tap.Acknowledged(Ack(1, 0, {{number(2), number(4)}}), 103) == 100, "a block that of its newest segment");
    Require(!tap.Acknowledged(Ack(1, 0, {{number(2), number(4)}}), 110), "a repeated block none");
    Require(tap.Sent(Data(1), 120), "what was sent before is sent again");
    Require(tap.Arrived(Data(1)) == 5 * MSS, "it closes the gap");
    Require(!tap.Acknowledged(Ack(6), 200), "what was sent twice gives no RTT (Karn)");
    Require(tap.Acknowledged(Ack(8), 210) == 203, "what follows does");
}

/** ACKs leave in slots, all together. */
void
Gate()
{
    Scenario scenario = OneFlow(20 * MS, MS, 50);
    scenario.link.acks = AckSlots{.every_ns = 5 * MS};
    Bench bench(scenario);
    for (int64_t i = 0; i < 4; ++i)
    {
        bench.path.RunUntil(i * MS + 1);
        bench.path.FromReceiver(Ack(static_cast<uint64_t>(i)), i * MS + 1);
    }
    bench.path.RunUntil(100 * MS);
    Require(bench.host.sender.size() == 4, "all leave");
    for (const Delivery& delivery : bench.host.sender)
    {
        Require(delivery.due_ns == 15 * MS, "at the slot after the first, and half an RTT on");
    }
}

/** What is sent is on its way, dropped, lost at random or has arrived. */
void
Conservation()
{
    Scenario scenario = OneFlow(30 * MS, 2 * MS, 20);
    scenario.link.loss = Bernoulli{0.05};
    scenario.link.jitter = Jitter{0.1, 3 * MS, true};
    scenario.link.delay_trace = DelayTrace{{0, 9 * MS, 2 * MS}, 70 * MS};
    scenario.link.reorders = true;
    scenario.link.changes.push_back({.at_ns = 300 * MS, .rate_bps = 3e6});
    scenario.flows.push_back({.name = "other", .rtt_ns = 90 * MS, .stop_ns = scenario.duration_ns});
    Bench bench(scenario, 7);
    std::mt19937_64 random(7);
    uint64_t sent = 0;
    std::array<uint64_t, 2> next{};
    for (int64_t now_ns = 0; now_ns < 1000 * MS; now_ns += static_cast<int64_t>(random() % (2 * MS)))
    {
        const std::size_t before = bench.host.receiver.size();
        const int64_t look_ns = bench.path.NextLookNs();
        bench.path.RunUntil(now_ns);
        Require(now_ns >= look_ns || bench.host.receiver.size() == before, "nothing is due before the path says so");
        const auto flow = static_cast<uint32_t>(random() % 2);
        bench.path.FromSender(Data(next[flow]++, flow), now_ns);
        ++sent;
    }
    bench.path.RunUntil(10'000 * MS);
    std::vector<double> flows(2 * std::size(FLOW_STAT_FIELDS));
    std::vector<double> link(std::size(LINK_STAT_FIELDS));
    bench.path.TakeInterval(flows, link);
    const double dropped = ReadRow<FlowStats>(flows, 0).dropped_pkts + ReadRow<FlowStats>(flows, 1).dropped_pkts;
    Require(dropped > 0 && bench.host.receiver.size() + static_cast<uint64_t>(dropped) == sent,
            "no packet is lost from sight");
    int64_t last_ns = 0;
    for (const Delivery& delivery : bench.host.receiver)
    {
        Require(delivery.due_ns >= last_ns, "the host is told in the order of time");
        last_ns = delivery.due_ns;
    }
}

/** What is not TCP over IPv4, or is cut off, is not a packet. */
void
Strangers()
{
    const auto whole = Bytes(1, 1, 100);
    for (std::size_t size = 0; size < whole.size(); ++size)
    {
        Require(!WirePacket::Parse(std::span(whole).first(size)), "a packet that is cut off is none");
    }
    struct Change
    {
        std::size_t at;
        uint8_t value;
    };
    for (const Change change :
         {Change{0, 0x46}, Change{0, 0x65}, Change{6, 0x20}, Change{7, 1}, Change{9, 17}, Change{32, 0x40}})
    {
        auto odd = whole;
        odd[change.at] = change.value;
        Require(!WirePacket::Parse(odd), "IP options, IPv6, fragments, UDP or a header that is too short are none");
    }
}

/** Another program's packet takes a flow's path with what it carries, and is not the flow's. */
void
Foreign()
{
    Bench bench(OneFlow(40 * MS, 7 * MS, 10));
    WirePacket data = Data(0);
    WirePacket ack = Ack(1);
    data.foreign_payload = ack.foreign_payload = std::make_shared<const std::vector<uint8_t>>(MSS, uint8_t{7});
    bench.path.FromSender(data, 0);
    bench.path.RunUntil(100 * MS);
    bench.path.FromReceiver(ack, 100 * MS);
    bench.path.RunUntil(200 * MS);
    Require(bench.host.receiver.size() == 1 && bench.host.sender.size() == 1, "both arrive");
    Require(bench.host.receiver[0].packet.foreign_payload == data.foreign_payload, "with what was sent");
    const FlowStats stats = bench.Interval();
    Require(stats.sent_pkts == 0 && stats.rtt_samples == 0 && stats.delivered_pkts == 0,
            "the flow has sent and received nothing");
}

/** A link of the return path at which ACKs queue by their real sizes, are dropped, and meet a reverse flow's data. */
void
ReturnPath()
{
    constexpr double BACK_BPS = 1e6;
    constexpr int64_t ACK_NS = 40 * 8 * 1'000; // 40 bytes at 1 Mbit/s
    Scenario scenario = OneFlow(40 * MS, 7 * MS, 10);
    Link back{.name = "link.reverse", .rate_bps = BACK_BPS, .delay_ns = 3 * MS};
    back.queue.size_packets = 4;
    scenario.further_links.push_back(back);
    scenario.flows[0].back = {1};
    scenario.flows.push_back(
        {.name = "reverse", .rtt_ns = 40 * MS, .stop_ns = scenario.duration_ns, .there = {1}, .back = {0}});
    Bench bench(scenario);
    bench.path.RunUntil(0);
    for (uint64_t i = 0; i < 8; ++i)
    {
        bench.path.FromReceiver(Ack(i), 0);
    }
    bench.path.RunUntil(100 * MS);
    Require(bench.host.sender.size() == 5, "four wait, one is in transmission, the rest is dropped");
    for (int64_t i = 0; i < 5; ++i)
    {
        Require(bench.host.sender[static_cast<std::size_t>(i)].due_ns == (i + 1) * ACK_NS + 20 * MS,
                "an ACK takes its transmission and half an RTT");
    }
    bench.path.FromSender(Data(0, 1), 100 * MS); // 17 ms before the queue
    bench.path.RunUntil(118 * MS);
    bench.path.FromReceiver(Ack(9), 118 * MS);
    bench.path.RunUntil(300 * MS);
    const auto data_ns = static_cast<int64_t>(IP_BYTES * 8e9 / BACK_BPS);
    Require(bench.host.receiver.size() == 1 && bench.host.receiver[0].due_ns == 120 * MS + data_ns,
            "a reverse flow's data take the return path");
    Require(bench.host.sender.size() == 6 && bench.host.sender[5].due_ns == 137 * MS + data_ns + ACK_NS,
            "an ACK waits for them");
    std::vector<double> flows(2 * std::size(FLOW_STAT_FIELDS));
    std::vector<double> link(std::size(LINK_STAT_FIELDS));
    bench.path.TakeInterval(flows, link);
    Require(ReadRow<FlowStats>(flows, 0).sent_pkts == 0 && ReadRow<FlowStats>(flows, 1).sent_pkts == 1,
            "each flow's data are counted where they go");
}

constexpr Experiment EXPERIMENTS[] = {{"delays", Delays},
                                      {"looking_seldom", LookingSeldom},
                                      {"contents", Contents},
                                      {"marks", Marks},
                                      {"taps", Taps},
                                      {"gate", Gate},
                                      {"conservation", Conservation},
                                      {"return_path", ReturnPath},
                                      {"strangers", Strangers},
                                      {"foreign", Foreign}};

} // namespace

int
main(int argc, char** argv)
{
    return RunExperiment(EXPERIMENTS, argc, argv);
}
