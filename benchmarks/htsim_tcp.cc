// SPDX-License-Identifier: GPL-2.0-only
//
// TCP of csg-htsim on the network of twin_speed.py: flows behind one drop-tail queue, each with an access delay of its own.
//
// usage: htsim_tcp RATE_MBPS QUEUE_BYTES SECONDS RTT_MS...
// Prints the packets that receivers got in order, those sent, and the CPU seconds of the simulation. Its TCP is NewReno
// without SACK and acknowledges each packet.
#include "eventlist.h"
#include "network.h"
#include "pipe.h"
#include "queue.h"
#include "tcp.h"

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <vector>

namespace
{

constexpr int PACKET_BYTES = 1488; // a segment of 1,448 bytes with its headers
constexpr double LINK_MS = 2;      // of every round trip, behind the queue

struct Connection
{
    Connection(double rtt_ms, Queue& queue, Pipe& link, EventList& events, TcpRtxTimerScanner& timers)
        : access(timeFromMs((rtt_ms / 2) - LINK_MS), events),
          return_path(timeFromMs(rtt_ms / 2), events),
          source(nullptr, nullptr, events)
    {
        for (PacketSink* hop : std::vector<PacketSink*>{&access, &queue, &link, &sink})
        {
            there.push_back(hop);
        }
        for (PacketSink* hop : std::vector<PacketSink*>{&return_path, &source})
        {
            back.push_back(hop);
        }
        timers.registerTcp(source);
        source.connect(there, back, sink, 0);
    }

    Pipe access;
    Pipe return_path;
    TcpSrc source;
    TcpSink sink;
    Route there;
    Route back;
};

} // namespace

int
main(int argc, char** argv)
{
    if (argc < 5)
    {
        std::fputs("usage: htsim_tcp RATE_MBPS QUEUE_BYTES SECONDS RTT_MS...\n", stderr);
        return 2;
    }
    EventList events;
    events.setEndtime(timeFromSec(std::atof(argv[3])));
    Packet::set_packet_size(PACKET_BYTES);
    Queue queue(speedFromMbps(std::atof(argv[1])), std::atol(argv[2]), events, nullptr);
    Pipe link(timeFromMs(LINK_MS), events);
    TcpRtxTimerScanner timers(timeFromMs(10), events);
    std::vector<std::unique_ptr<Connection>> connections;
    for (int i = 4; i < argc; ++i)
    {
        connections.emplace_back(new Connection(std::atof(argv[i]), queue, link, events, timers));
    }
    const std::clock_t begin = std::clock();
    while (events.doNextEvent())
    {
    }
    const double cpu_s = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    unsigned long long delivered_pkts = 0;
    unsigned long long sent_pkts = 0;
    for (const auto& connection : connections)
    {
        delivered_pkts += connection->sink._cumulative_ack / PACKET_BYTES;
        sent_pkts += connection->source._packets_sent / PACKET_BYTES;
    }
    std::printf("%llu %llu %.6f\n", delivered_pkts, sent_pkts, cpu_s);
    return 0;
}
