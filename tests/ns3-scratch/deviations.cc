// SPDX-License-Identifier: GPL-2.0-only
//
// One sender, one bottleneck, one receiver: the same network once with ns-3's TcpBbr on its TcpSocketBase
// ("stock") and once with bbrgym's controller on TcpLinuxSocket ("ours"). Prints what was measured as
// "name value" lines; test_deviations.py says what each must be.
//
// usage: deviations EXPERIMENT stock|ours

#include "bbrgym-cc.h"
#include "params.hpp"
#include "tcp-linux-socket.h"

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/tcp-bbr.h"
#include "ns3/traffic-control-module.h"
#include "ns3/windowed-filter.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <vector>

/** TcpBbr names a test of this name its friend; it is how its state can be read. */
class TcpBbrCheckGainValuesTest
{
  public:
    static uint32_t Phase(const ns3::TcpBbr& bbr)
    {
        switch (bbr.m_state)
        {
        case ns3::TcpBbr::BBR_STARTUP:
            return 0;
        case ns3::TcpBbr::BBR_DRAIN:
            return 1;
        case ns3::TcpBbr::BBR_PROBE_RTT:
            return 2;
        default:
            return 8 + bbr.m_cycleIndex;
        }
    }

    static double BandwidthBps(const ns3::TcpBbr& bbr)
    {
        return static_cast<double>(bbr.m_maxBwFilter.GetBest().GetBitRate());
    }

    static double PacingGain(const ns3::TcpBbr& bbr) { return bbr.m_pacingGain; }
    static bool Conserving(const ns3::TcpBbr& bbr) { return bbr.m_packetConservation; }
    static uint64_t Round(const ns3::TcpBbr& bbr) { return bbr.m_roundCount; }
    static double MinRttMs(const ns3::TcpBbr& bbr) { return bbr.m_minRtt.Get().GetSeconds() * 1e3; }
};

using namespace ns3;

namespace
{

/** What both kinds show after each ACK. */
struct Row
{
    double t_s;
    double cwnd_pkts;
    double pacing_mbps;
    double bw_mbps;
    double in_flight_pkts;
    double rtt_ms; ///< NaN: the ACK measured none
    double lost_pkts;
    double acked_pkts;
    bool app_limited;
    uint32_t phase;
    uint64_t round;
    int ca_state;
    bool una_advanced;
    bool rejected; ///< the sampler threw the sample away
    uint64_t prior_delivered_pkts;
    uint64_t delivered_pkts;
    bool conserving;
};

struct Network
{
    double rate_mbps = 10;
    double one_way_ms = 20;
    uint32_t queue_pkts = 1000;
    double loss = 0;
    std::set<uint32_t> drop_nth; ///< data-direction packets dropped by number, from 1
    double duration_s = 10;
    uint32_t mss = 1448;
    uint32_t flows = 1;
    double cbr_mbps = 0; ///< 0: bulk
    bool timestamps = false;
    std::vector<std::pair<double, double>> one_way_ms_at; ///< (time, new delay)
    std::vector<std::pair<double, double>> rate_mbps_at;
    std::vector<std::pair<double, double>> blackouts_s; ///< (from, to): everything sent is dropped
    uint32_t run = 1;
    std::string controller = "ns3::WatchedBbr"; ///< on the stock socket
};

struct Recording
{
    std::vector<Row> rows;
    uint64_t dropped_pkts = 0;
    uint64_t rto_count = 0;
    uint64_t retransmitted_pkts = 0;
    double goodput_mbps = 0;
    double max_cwnd_bytes = 0;
    double final_bw_mbps = 0; ///< of a TcpBbrgym on the stock socket
    double bbq_alpha_us = 0;
    std::vector<double> retransmit_times_s;
    std::vector<double> send_times_s;
};

/** TcpBbr with a look at what it is given. */
class WatchedBbr : public TcpBbr
{
  public:
    static TypeId GetTypeId()
    {
        static TypeId tid = TypeId("ns3::WatchedBbr").SetParent<TcpBbr>().AddConstructor<WatchedBbr>();
        return tid;
    }

    TypeId GetInstanceTypeId() const override { return GetTypeId(); }
    Ptr<TcpCongestionOps> Fork() override { return CopyObject<WatchedBbr>(this); }

    void CongControl(Ptr<TcpSocketState> tcb,
                     const TcpRateOps::TcpRateConnection& rc,
                     const TcpRateOps::TcpRateSample& rs) override
    {
        TcpBbr::CongControl(tcb, rc, rs);
        if (watch)
        {
            watch(tcb, rc, rs, *this);
        }
    }

    void CongestionStateSet(Ptr<TcpSocketState> tcb, TcpSocketState::TcpCongState_t state) override
    {
        TcpBbr::CongestionStateSet(tcb, state);
        timeouts += state == TcpSocketState::CA_LOSS;
    }

    std::function<void(Ptr<TcpSocketState>,
                       const TcpRateOps::TcpRateConnection&,
                       const TcpRateOps::TcpRateSample&,
                       const TcpBbr&)>
        watch;
    uint64_t timeouts = 0;
};

NS_OBJECT_ENSURE_REGISTERED(WatchedBbr);

/** Lets a protected socket member be read. */
class StockSocket : public TcpSocketBase
{
  public:
    static Ptr<TcpCongestionOps> Controller(const Ptr<TcpSocketBase>& socket)
    {
        return static_cast<StockSocket*>(PeekPointer(socket))->m_congestionControl;
    }
};

/** Drops what it is told: at random, by number, or everything within a time. */
class Dropper : public ErrorModel
{
  public:
    explicit Dropper(const Network& network)
        : m_network(network)
    {
        m_draw->SetStream(77);
    }

    uint64_t dropped = 0;

  private:
    bool DoCorrupt(Ptr<Packet>) override
    {
        const double now_s = Simulator::Now().GetSeconds();
        bool drop = m_network.drop_nth.count(++m_number) > 0;
        drop |= m_network.loss > 0 && m_draw->GetValue() < m_network.loss;
        for (const auto& [from_s, to_s] : m_network.blackouts_s)
        {
            drop |= from_s <= now_s && now_s < to_s;
        }
        dropped += drop;
        return drop;
    }

    void DoReset() override {}

    Network m_network;
    uint32_t m_number = 0;
    Ptr<UniformRandomVariable> m_draw = CreateObject<UniformRandomVariable>();
};

std::vector<Recording>
Run(const Network& network, bool ours)
{
    RngSeedManager::SetSeed(1);
    RngSeedManager::SetRun(network.run);
    const uint32_t buffer = 1u << 28;
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(network.mss));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(buffer));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(buffer));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::DataRetries", UintegerValue(1000));
    Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(network.timestamps));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(200)));
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TypeId::LookupByName(network.controller)));

    std::vector<Recording> recordings(network.flows);
    std::vector<Ptr<PacketSink>> sinks;
    std::vector<Ptr<Dropper>> droppers;
    std::vector<std::function<void()>> finish;
    for (uint32_t f = 0; f < network.flows; ++f)
    {
        Recording& recording = recordings[f];
        NodeContainer nodes(2);
        PointToPointHelper link;
        link.SetDeviceAttribute("Mtu", UintegerValue(65000));
        link.SetDeviceAttribute("DataRate", DataRateValue(DataRate(uint64_t(network.rate_mbps * 1e6))));
        link.SetChannelAttribute("Delay", TimeValue(Seconds(network.one_way_ms / 1e3)));
        link.SetQueue("ns3::DropTailQueue<Packet>",
                      "MaxSize",
                      QueueSizeValue(QueueSize(QueueSizeUnit::PACKETS, network.queue_pkts)));
        NetDeviceContainer devices = link.Install(nodes);
        InternetStackHelper stack;
        stack.Install(nodes);
        Ipv4AddressHelper addresses;
        addresses.SetBase(("10." + std::to_string(f) + ".0.0").c_str(), "255.255.255.0");
        const auto interfaces = addresses.Assign(devices);
        TrafficControlHelper().Uninstall(devices);
        TcpLinuxSocketFactory::Install(nodes.Get(0));

        const auto device = DynamicCast<PointToPointNetDevice>(devices.Get(0));
        const auto dropper = CreateObject<Dropper>(network);
        droppers.push_back(dropper);
        DynamicCast<PointToPointNetDevice>(devices.Get(1))->SetReceiveErrorModel(dropper);
        device->GetQueue()->TraceConnectWithoutContext(
            "Drop", Callback<void, Ptr<const Packet>>([&recording](Ptr<const Packet>) { ++recording.dropped_pkts; }));
        for (const auto& [at_s, ms] : network.one_way_ms_at)
        {
            const auto channel = device->GetChannel();
            Simulator::Schedule(Seconds(at_s), [channel, ms = ms] {
                channel->SetAttribute("Delay", TimeValue(Seconds(ms / 1e3)));
            });
        }
        for (const auto& [at_s, mbps] : network.rate_mbps_at)
        {
            Simulator::Schedule(Seconds(at_s), [device, mbps = mbps] {
                device->SetDataRate(DataRate(uint64_t(mbps * 1e6)));
            });
        }

        const InetSocketAddress to(interfaces.GetAddress(1), 5000);
        const char* factory = ours ? "ns3::TcpLinuxSocketFactory" : "ns3::TcpSocketFactory";
        PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), 5000));
        sinks.push_back(DynamicCast<PacketSink>(sink.Install(nodes.Get(1)).Get(0)));
        ApplicationContainer source;
        if (network.cbr_mbps > 0)
        {
            OnOffHelper cbr(factory, to);
            cbr.SetConstantRate(DataRate(uint64_t(network.cbr_mbps * 1e6)), network.mss);
            source = cbr.Install(nodes.Get(0));
        }
        else
        {
            BulkSendHelper bulk(factory, to);
            bulk.SetAttribute("SendSize", UintegerValue(network.mss * 10));
            source = bulk.Install(nodes.Get(0));
        }
        source.Start(Seconds(0));
        source.Stop(Seconds(network.duration_s));

        const auto node = nodes.Get(0);
        const auto app = source.Get(0);
        Simulator::Schedule(NanoSeconds(1), [&recording, &finish, app, node, ours, mss = network.mss] {
            Ptr<Socket> s;
            if (const auto bulk = DynamicCast<BulkSendApplication>(app))
            {
                s = bulk->GetSocket();
            }
            else
            {
                s = DynamicCast<OnOffApplication>(app)->GetSocket();
            }
            const auto socket = DynamicCast<TcpSocketBase>(s);
            socket->TraceConnectWithoutContext(
                "CongestionWindow",
                Callback<void, uint32_t, uint32_t>([&recording](uint32_t, uint32_t bytes) {
                    recording.max_cwnd_bytes = std::max(recording.max_cwnd_bytes, double(bytes));
                }));
            socket->TraceConnectWithoutContext(
                "Tx",
                Callback<void, Ptr<const Packet>, const TcpHeader&, Ptr<const TcpSocketBase>>(
                    [&recording](Ptr<const Packet> p, const TcpHeader&, Ptr<const TcpSocketBase>) {
                        if (p->GetSize() > 0)
                        {
                            recording.send_times_s.push_back(Simulator::Now().GetSeconds());
                        }
                    }));
            socket->TraceConnectWithoutContext(
                "Retransmission",
                Callback<void,
                         Ptr<const Packet>,
                         const TcpHeader&,
                         const Address&,
                         const Address&,
                         Ptr<const TcpSocketBase>>([&recording](Ptr<const Packet>,
                                                                const TcpHeader&,
                                                                const Address&,
                                                                const Address&,
                                                                Ptr<const TcpSocketBase>) {
                    ++recording.retransmitted_pkts;
                    recording.retransmit_times_s.push_back(Simulator::Now().GetSeconds());
                }));
            if (ours)
            {
                const auto linux_socket = DynamicCast<TcpLinuxSocket>(socket);
                linux_socket->SetAckObserver([&recording, linux_socket, mss](const AckEvent& e) {
                    const auto bw = double(cc_bw_Bps(&e.state)) * 8e-6;
                    recording.rows.push_back({Simulator::Now().GetSeconds(),
                                              double(e.state.cwnd_pkts),
                                              double(e.state.pacing_Bps) * 8e-6,
                                              bw,
                                              double(e.sample.in_flight_pkts),
                                              e.sample.rtt_us < 0 ? NAN : double(e.sample.rtt_us) * 1e-3,
                                              double(e.sample.lost_pkts),
                                              double(e.sample.acked_pkts),
                                              e.sample.is_app_limited,
                                              cc_phase(&e.state, &e.params),
                                              cc_round_count(&e.state, &e.params),
                                              e.sample.ca_state,
                                              true,
                                              e.sample.acked_pkts > 0 && e.sample.interval_us <= 0,
                                              e.sample.prior_delivered_pkts,
                                              e.sample.delivered_pkts,
                                              e.state.bbr.packet_conservation});
                });
                finish.push_back([&recording, linux_socket] {
                    recording.rto_count = linux_socket->GetSender().Totals().rto_count;
                });
                return;
            }
            if (const auto bbrgym = DynamicCast<TcpBbrgym>(StockSocket::Controller(socket)))
            {
                finish.push_back([&recording, bbrgym] {
                    recording.final_bw_mbps = double(cc_bw_Bps(&bbrgym->State())) * 8e-6;
                    DoubleValue alpha(NAN);
                    bbrgym->GetAttributeFailSafe("BbqAlphaUs", alpha);
                    recording.bbq_alpha_us = alpha.Get();
                });
                return;
            }
            const auto bbr = DynamicCast<WatchedBbr>(StockSocket::Controller(socket));
            auto last_acked = std::make_shared<SequenceNumber32>(0);
            bbr->watch = [&recording, mss, last_acked](Ptr<TcpSocketState> tcb,
                                                       const TcpRateOps::TcpRateConnection& rc,
                                                       const TcpRateOps::TcpRateSample& rs,
                                                       const TcpBbr& b) {
                using Peek = TcpBbrCheckGainValuesTest;
                recording.rows.push_back({Simulator::Now().GetSeconds(),
                                          double(tcb->m_cWnd) / mss,
                                          double(tcb->m_pacingRate.Get().GetBitRate()) * 1e-6,
                                          Peek::BandwidthBps(b) * 1e-6,
                                          double(tcb->m_bytesInFlight) / mss,
                                          tcb->m_lastRtt.Get().GetSeconds() * 1e3,
                                          double(rs.m_bytesLoss) / mss,
                                          double(rs.m_ackedSacked) / mss,
                                          rs.m_isAppLimited,
                                          Peek::Phase(b),
                                          Peek::Round(b),
                                          int(tcb->m_congState.Get()),
                                          tcb->m_lastAckedSeq > *last_acked,
                                          rs.m_ackedSacked > 0 && rs.m_interval.IsZero(),
                                          rs.m_priorDelivered / mss,
                                          rc.m_delivered / mss,
                                          Peek::Conserving(b)});
                *last_acked = tcb->m_lastAckedSeq;
            };
            finish.push_back([&recording, bbr] { recording.rto_count = bbr->timeouts; });
        });
    }
    Simulator::Stop(Seconds(network.duration_s));
    Simulator::Run();
    for (const auto& step : finish)
    {
        step();
    }
    for (uint32_t f = 0; f < network.flows; ++f)
    {
        recordings[f].dropped_pkts += droppers[f]->dropped;
        recordings[f].goodput_mbps = double(sinks[f]->GetTotalRx()) * 8e-6 / network.duration_s;
    }
    Simulator::Destroy();
    return recordings;
}

void
Print(const char* name, double value)
{
    std::printf("%s %.9g\n", name, value);
}

double
PayloadCapacityMbps(const Network& n)
{
    return n.rate_mbps * n.mss / (n.mss + 42.0); // 20 IP, 20 TCP, 2 PPP
}

template <typename Value, typename Keep>
double
MaxOf(const std::vector<Row>& rows, Value value, Keep keep)
{
    double max = -INFINITY;
    for (const auto& row : rows)
    {
        if (keep(row))
        {
            max = std::max(max, double(value(row)));
        }
    }
    return max;
}

double
SumLost(const Recording& r)
{
    return std::accumulate(r.rows.begin(), r.rows.end(), 0.0, [](double s, const Row& row) { return s + row.lost_pkts; });
}

// ---- the experiments, named after the deviation they show -----------------------------------------------

void
D1(bool ours)
{
    for (const auto& [rate_mbps, one_way_ms] : {std::pair{10.0, 5.0}, {2.0, 10.0}})
    {
        Network n;
        n.rate_mbps = rate_mbps;
        n.one_way_ms = one_way_ms;
        n.duration_s = 6;
        const auto r = Run(n, ours)[0];
        const double bw = MaxOf(r.rows, [](const Row& x) { return x.bw_mbps; }, [](const Row& x) { return x.t_s > 2; });
        std::printf("overestimate_%g_mbps %.6g\n", rate_mbps, bw / PayloadCapacityMbps(n));
    }
}

void
D2(bool ours)
{
    Network n;
    n.loss = 0.005;
    n.one_way_ms = 10;
    n.duration_s = 20;
    const auto r = Run(n, ours)[0];
    Print("dropped_pkts", double(r.dropped_pkts));
    Print("reported_lost_pkts", SumLost(r));
}

void
D3(bool ours)
{
    // Shallow queues of several depths: recovery has to end while STARTUP still lasts.
    double most = 0;
    for (const uint32_t queue_pkts : {6u, 8u, 10u, 12u, 14u, 20u})
    {
        Network n;
        n.queue_pkts = queue_pkts;
        n.duration_s = 3;
        const double bdp = PayloadCapacityMbps(n) * 1e6 / 8 * 2 * n.one_way_ms / 1e3;
        most = std::max(most, Run(n, ours)[0].max_cwnd_bytes / bdp);
    }
    Print("max_cwnd_bdp", most);
}

void
D4(bool ours)
{
    Network n;
    n.rate_mbps = 40;
    n.one_way_ms = 5;
    n.duration_s = 11;
    const auto r = Run(n, ours)[0];
    double at_exit = NAN;
    for (std::size_t i = 1; i < r.rows.size(); ++i)
    {
        if (r.rows[i - 1].phase == 2 && r.rows[i].phase != 2)
        {
            at_exit = r.rows[i].bw_mbps;
        }
    }
    Print("bandwidth_kept_through_probe_rtt", at_exit / PayloadCapacityMbps(n));
}

void
D5(bool ours)
{
    for (const double loss : {0.01, 0.1})
    {
        Network n;
        n.loss = loss;
        n.one_way_ms = 50;
        n.duration_s = 20;
        const auto r = Run(n, ours)[0];
        std::printf("timeouts_at_%g %g\n", loss, double(r.rto_count));
        std::printf("goodput_share_at_%g %.6g\n", loss, r.goodput_mbps / (PayloadCapacityMbps(n) * (1 - loss)));
    }
}

/** Ten segments leave, 2 and 5 are lost, 5's retransmission (not the head's) is SACKed. */
void
D6(bool ours)
{
    if (ours)
    {
        bbrgym::Scoreboard board;
        for (int64_t i = 0; i < 10; ++i)
        {
            board.Sent(false, false, i);
        }
        const std::vector<bbrgym::SerialRange> hole{{6, 10}, {3, 5}};
        board.Acknowledge(2, hole, 1'000'000);
        board.DetectLosses(false, 1'000'000, 2'000'000); // a round trip and more after they left
        for (int i = 0; i < 2; ++i)
        {
            board.Retransmitted(board.NextLost().value(), 2'000'001);
        }
        const std::vector<bbrgym::SerialRange> filled{{3, 10}};
        board.Acknowledge(2, filled, 3'000'000);
        Print("in_flight_pkts", board.InFlight());
        return;
    }
    constexpr uint32_t mss = 1000;
    auto buffer = CreateObject<TcpTxBuffer>(0);
    buffer->SetRWndCallback(MakeCallback(+[]() -> uint32_t { return 1u << 30; }));
    buffer->SetMaxBufferSize(1 << 20);
    buffer->SetSegmentSize(mss);
    buffer->SetDupAckThresh(3);
    buffer->Add(Create<Packet>(10 * mss));
    for (uint32_t i = 0; i < 10; ++i)
    {
        buffer->CopyFromSequence(mss, SequenceNumber32(i * mss));
    }
    const auto block = [](uint32_t from, uint32_t to) {
        return TcpOptionSack::SackBlock(SequenceNumber32(from * mss), SequenceNumber32(to * mss));
    };
    buffer->DiscardUpTo(SequenceNumber32(2 * mss));
    buffer->Update({block(6, 10), block(3, 5)});
    buffer->CopyFromSequence(mss, SequenceNumber32(2 * mss));
    buffer->CopyFromSequence(mss, SequenceNumber32(5 * mss));
    buffer->Update({block(3, 10)});
    Print("in_flight_pkts", double(buffer->BytesInFlight()) / mss);
}

uint32_t
FirstProbePhase(const Recording& r)
{
    for (const auto& row : r.rows)
    {
        if (row.phase >= 8)
        {
            return row.phase - 8;
        }
    }
    return 99;
}

void
D7(bool ours)
{
    Network n;
    n.flows = 8;
    n.duration_s = 3;
    std::set<uint32_t> phases;
    for (const auto& r : Run(n, ours))
    {
        phases.insert(FirstProbePhase(r));
    }
    Print("different_first_phases_of_8_flows", double(phases.size()));
}

void
D8(bool ours)
{
    std::map<uint32_t, int> count;
    for (uint32_t run = 1; run <= 60; ++run)
    {
        Network n;
        n.rate_mbps = 2;
        n.one_way_ms = 10;
        n.duration_s = 1;
        n.run = run;
        ++count[FirstProbePhase(Run(n, ours)[0])];
    }
    for (const uint32_t phase : {0u, 1u, 2u, 3u, 4u, 5u, 6u, 7u})
    {
        std::printf("phase_%u %d\n", phase, count[phase]);
    }
}

void
D9(bool ours)
{
    Network n;
    n.cbr_mbps = 1;
    n.duration_s = 5;
    const auto r = Run(n, ours)[0];
    double limited = 0;
    double all = 0;
    for (const auto& row : r.rows)
    {
        if (row.t_s > 1)
        {
            limited += row.app_limited;
            ++all;
        }
    }
    Print("app_limited_share", limited / all);
}

void
D11D12(bool ours)
{
    for (const auto& [rate_mbps, one_way_ms] : {std::pair{10.0, 20.0}, {100.0, 5.0}})
    {
        Network n;
        n.rate_mbps = rate_mbps;
        n.one_way_ms = one_way_ms;
        n.duration_s = 5;
        const auto r = Run(n, ours)[0];
        double odd = 0;
        double sum = 0;
        double count = 0;
        for (const auto& row : r.rows)
        {
            if (row.t_s > 3 && row.phase > 8)
            {
                odd += std::fmod(row.cwnd_pkts, 2.0) != 0.0;
                sum += row.cwnd_pkts;
                ++count;
            }
        }
        const double bdp = PayloadCapacityMbps(n) * 1e6 / 8 * 2 * n.one_way_ms / 1e3 / n.mss;
        std::printf("odd_windows_%g_mbps %.6g\n", rate_mbps, odd / count);
        std::printf("budget_over_two_bdp_%g_mbps %.6g\n", rate_mbps, sum / count - 2 * bdp);
    }
}

void
D13(bool ours)
{
    Network n;
    n.drop_nth = {1};
    n.duration_s = 11;
    const auto r = Run(n, ours)[0];
    Print("goodput_mbps", r.goodput_mbps);
    Print("first_pacing_mbps", r.rows.empty() ? 0 : r.rows.front().pacing_mbps);
}

void
D14(bool ours)
{
    // A packet every 39 ms, each alone in the network, and a path that gets ten times shorter.
    Network n;
    n.cbr_mbps = 0.3;
    n.one_way_ms = 50;
    n.one_way_ms_at = {{5.0, 5.0}};
    n.duration_s = 8;
    const auto r = Run(n, ours)[0];
    double rejected = 0;
    for (const auto& row : r.rows)
    {
        rejected += row.t_s > 5.0 && row.rejected;
    }
    Print("samples_thrown_away_after_the_path_got_shorter", rejected);
}

void
D15(bool ours)
{
    Network n;
    n.one_way_ms = 5.15;
    n.timestamps = true;
    n.duration_s = 3;
    const auto r = Run(n, ours)[0];
    double whole = 0;
    double all = 0;
    for (const auto& row : r.rows)
    {
        if (!std::isnan(row.rtt_ms))
        {
            whole += std::abs(row.rtt_ms - std::round(row.rtt_ms)) < 1e-6;
            ++all;
        }
    }
    Print("whole_millisecond_share", whole / all);
}

void
D16(bool ours)
{
    Network n;
    n.queue_pkts = 20;
    n.duration_s = 4;
    const auto r = Run(n, ours)[0];
    // ACKs in recovery whose RTT repeats the ACK's before it to the nanosecond: stale, not measured.
    double repeated = 0;
    double all = 0;
    for (std::size_t i = 1; i < r.rows.size(); ++i)
    {
        if (r.rows[i].ca_state == CC_CA_RECOVERY)
        {
            repeated += r.rows[i].rtt_ms == r.rows[i - 1].rtt_ms;
            ++all;
        }
    }
    Print("stale_rtt_share_in_recovery", repeated / all);
}

void
D17(bool ours)
{
    Network n;
    n.queue_pkts = 15;
    n.loss = 0.002;
    n.duration_s = 20;
    const auto r = Run(n, ours)[0];
    // Packet conservation has to last a round trip from the ACK that entered recovery, or until recovery ends.
    double entries = 0;
    double cut_short = 0;
    for (std::size_t i = 1; i < r.rows.size(); ++i)
    {
        if (r.rows[i].ca_state != CC_CA_RECOVERY || r.rows[i - 1].ca_state >= CC_CA_RECOVERY)
        {
            continue;
        }
        ++entries;
        std::size_t j = i;
        while (j + 1 < r.rows.size() && r.rows[j].conserving)
        {
            ++j;
        }
        const bool in_recovery_still = r.rows[j].ca_state == CC_CA_RECOVERY;
        cut_short += in_recovery_still && r.rows[j].t_s - r.rows[i].t_s < 2 * n.one_way_ms / 1e3;
    }
    Print("recoveries", entries);
    Print("cut_short_share", cut_short / entries);
}

/** A window of 100 packets, two timeouts in a row, then all is acknowledged: the window must be back. */
void
D18(bool ours)
{
    constexpr uint32_t mss = 1000;
    if (ours)
    {
        cc_params params = bbrgym::Preset(CC_VARIANT_BBR);
        cc_state state{};
        cc_start start{};
        start.srtt_us = start.min_rtt_us = 10'000;
        start.mss_bytes = mss;
        start.initial_cwnd_pkts = 100;
        cc_init(&state, &params, &start);
        cc_on_rto(&state, &params, true, 100, 0, 100);
        cc_on_rto(&state, &params, false, 1, 0, 101);
        cc_on_loss_state(&state, &params, CC_CA_OPEN, 0);
        cc_sample sample{};
        sample.now_us = sample.delivered_time_us = 500'000;
        sample.sample_pkts = sample.interval_us = sample.rtt_us = -1;
        sample.acked_pkts = 1;
        cc_on_ack(&state, &params, &sample);
        Print("window_after_pkts", state.cwnd_pkts);
        return;
    }
    auto tcb = CreateObject<TcpSocketState>();
    tcb->m_segmentSize = mss;
    tcb->m_initialCWnd = 100;
    tcb->m_cWnd = 100 * mss;
    auto bbr = CreateObject<WatchedBbr>();
    bbr->CongestionStateSet(tcb, TcpSocketState::CA_OPEN);
    for (int timeout = 0; timeout < 2; ++timeout)
    {
        bbr->GetSsThresh(tcb, 0);
        bbr->CongestionStateSet(tcb, TcpSocketState::CA_LOSS);
        tcb->m_congState = TcpSocketState::CA_LOSS;
        tcb->m_cWnd = mss; // as TcpSocketBase::ReTxTimeout does
    }
    bbr->CongestionStateSet(tcb, TcpSocketState::CA_OPEN);
    tcb->m_congState = TcpSocketState::CA_OPEN;
    TcpRateOps::TcpRateConnection connection;
    TcpRateOps::TcpRateSample sample;
    sample.m_ackedSacked = mss;
    bbr->CongControl(tcb, connection, sample);
    Print("window_after_pkts", double(tcb->m_cWnd) / mss);
}

void
D19(bool ours)
{
    Network n;
    n.mss = 60000;
    n.rate_mbps = 10000;
    n.one_way_ms = 5;
    n.duration_s = ours ? 6 : 12; // until 4 GiB are delivered
    const auto r = Run(n, ours)[0];
    const auto& last = r.rows.back();
    Print("delivered_gib", double(last.delivered_pkts) * n.mss / (1u << 30));
    Print("prior_delivered_behind_pkts", double(last.delivered_pkts) - double(last.prior_delivered_pkts));
}

void
D22(bool ours)
{
    // A falling series, one sample a round: which value stands after each round?
    const std::vector<uint64_t> series = {100, 90, 80, 70, 60, 50, 40, 30, 20, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 1, 1, 1};
    cc_max_filter mine{};
    WindowedFilter<uint64_t, MaxFilter<uint64_t>, uint32_t, uint32_t> stock(10, 0, 0);
    double different_from_kernel = 0;
    cc_max_filter kernel{};
    for (uint32_t t = 0; t < series.size(); ++t)
    {
        const uint64_t want = cc_max_filter_update(&kernel, t, 10, series[t]);
        stock.Update(series[t], t);
        const uint64_t got = ours ? cc_max_filter_update(&mine, t, 10, series[t]) : stock.GetBest();
        different_from_kernel += got != want;
    }
    Print("rounds_that_differ", different_from_kernel);
}

void
D24(bool ours)
{
    Network n;
    n.queue_pkts = 20;
    n.duration_s = 4;
    const auto r = Run(n, ours)[0];
    // At no more than 1.25 times the link's rate packets leave 0.9 ms apart: sooner than 0.4 ms was not paced.
    std::vector<double> sends = r.send_times_s;
    std::sort(sends.begin(), sends.end());
    double unpaced = 0;
    for (const double t : r.retransmit_times_s)
    {
        const auto at = std::lower_bound(sends.begin(), sends.end(), t);
        unpaced += (at != sends.begin() && t - *(at - 1) < 0.4e-3) || std::count(sends.begin(), sends.end(), t) > 1;
    }
    Print("retransmissions", double(r.retransmit_times_s.size()));
    Print("unpaced_share", unpaced / double(r.retransmit_times_s.size()));
}

/** Our controllers by name on ns-3's own socket, as any script can have them; always "ours". */
void
OnStockSocket(bool)
{
    for (const char* name : {"Bbr", "BbrPlus", "BbrAcd", "Bbq", "BbrPg", "BbrMix", "Cubic", "Reno"})
    {
        Network n;
        n.controller = std::string("ns3::TcpBbrgym") + name;
        n.queue_pkts = 60;
        n.loss = 0.0005;
        const auto r = Run(n, false)[0];
        const double bdp = PayloadCapacityMbps(n) * 1e6 / 8 * 2 * n.one_way_ms / 1e3;
        std::printf("goodput_share_%s %.6g\n", name, r.goodput_mbps / PayloadCapacityMbps(n));
        std::printf("bandwidth_%s %.6g\n", name, r.final_bw_mbps / PayloadCapacityMbps(n));
        std::printf("max_cwnd_bdp_%s %.6g\n", name, r.max_cwnd_bytes / bdp);
    }
    Config::SetDefault("ns3::TcpBbrgymBbq::BbqAlphaUs", DoubleValue(1500));
    Network n;
    n.controller = "ns3::TcpBbrgymBbq";
    n.duration_s = 1;
    Print("bbq_alpha_us", Run(n, false)[0].bbq_alpha_us);
}

void
D26(bool ours)
{
    Network n;
    n.duration_s = 0.2;
    const auto r = Run(n, ours)[0];
    const double rtt_s = 2 * n.one_way_ms / 1e3;
    Print("startup_gain", r.rows.front().pacing_mbps * 1e6 / 8 / (10.0 * n.mss / rtt_s));
}

} // namespace

int
main(int argc, char** argv)
{
    const std::map<std::string, void (*)(bool)> experiments = {
        {"D1", D1},   {"D2", D2},   {"D3", D3},         {"D4", D4},   {"D5", D5},   {"D6", D6},
        {"D7", D7},   {"D8", D8},   {"D9", D9},         {"D11", D11D12}, {"D13", D13},
        {"D14", D14}, {"D15", D15}, {"D16", D16},       {"D17", D17}, {"D18", D18}, {"D19", D19},
        {"D22", D22}, {"D24", D24}, {"D26", D26}, {"SOCKET", OnStockSocket},
    };
    if (argc != 3 || !experiments.count(argv[1]) || (std::string(argv[2]) != "stock" && std::string(argv[2]) != "ours"))
    {
        std::fprintf(stderr, "usage: %s EXPERIMENT stock|ours\n", argv[0]);
        return 2;
    }
    experiments.at(argv[1])(std::string(argv[2]) == "ours");
    return 0;
}
