// SPDX-License-Identifier: GPL-2.0-only
#include "last-hop.h"

#include "run-control.h"

#include "ns3/ipv4-header.h"
#include "ns3/simulator.h"
#include "ns3/udp-header.h"

#include <dlfcn.h>

#include <string>

#define BBRGYM_TEXT_OF(name) #name
#define BBRGYM_NAME_OF(macro) BBRGYM_TEXT_OF(macro)

namespace bbrgym
{

using namespace ns3;

namespace
{

std::string
KindOf(const LastHop& spec)
{
    return std::holds_alternative<WifiHop>(spec) ? "wifi" : "lte";
}

/**
 * The library lies where the run path of this program or module leads. It stays loaded. Its functions are bound when
 * they are called: the package's config-store, which lte names and never calls, lacks GTK's.
 */
MakeRadioHopFunction
LoadHop(const std::string& kind)
{
    const std::string library = "libbbrgym-hop-" + kind + ".so";
    void* handle = dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL);
    void* symbol = handle ? dlsym(handle, BBRGYM_NAME_OF(BBRGYM_MAKE_RADIO_HOP)) : nullptr;
    if (!symbol)
    {
        throw ScenarioError(
            "link.last_hop",
            "is " + kind + ", which this build of the ns-3 world lacks: build it against an ns-3 with the module " +
                kind + " (" + dlerror() + ")");
    }
    return reinterpret_cast<MakeRadioHopFunction>(symbol);
}

} // namespace

std::unique_ptr<RadioHop>
MakeRadioHop(const LastHop& spec, RadioHop::Ends ends)
{
    return std::unique_ptr<RadioHop>(LoadHop(KindOf(spec))(spec, &ends));
}

// ---- recording ------------------------------------------------------------------------------------------

namespace
{

constexpr uint8_t UDP_PROTOCOL = 17;
constexpr double SATURATING_BPS = 1.5e9; // above every rate of the hops
const Time BURST_INTERVAL = MilliSeconds(1);

Ptr<Packet>
MakeDatagram(uint32_t packet_bytes)
{
    UdpHeader udp;
    Ipv4Header ip;
    ip.SetSource(Ipv4Address("10.1.0.0"));
    ip.SetDestination(Ipv4Address("10.0.0.1"));
    ip.SetProtocol(UDP_PROTOCOL);
    ip.SetPayloadSize(packet_bytes - ip.GetSerializedSize());
    auto packet = Create<Packet>(packet_bytes - ip.GetSerializedSize() - udp.GetSerializedSize());
    packet->AddHeader(udp);
    packet->AddHeader(ip);
    return packet;
}

/** Offers the hop more than it can carry, so that its queue is never empty. */
void
Saturate(RadioHop& hop, uint32_t packet_bytes)
{
    const double burst_bytes = SATURATING_BPS / 8 * BURST_INTERVAL.GetSeconds();
    for (double sent_bytes = 0; sent_bytes < burst_bytes; sent_bytes += packet_bytes)
    {
        hop.Down(MakeDatagram(packet_bytes));
    }
    Simulator::Schedule(BURST_INTERVAL, [&hop, packet_bytes] { Saturate(hop, packet_bytes); });
}

} // namespace

std::vector<int64_t>
RecordArrivals(const LastHop& spec, uint64_t seed, int64_t duration_ns, uint32_t packet_bytes)
{
    std::vector<int64_t> arrivals_ns;
    SimulatorLease simulator(seed);
    const auto note_arrival = [&arrivals_ns](Ptr<Packet>) {
        const int64_t since_ns = Simulator::Now().GetNanoSeconds() - HOP_CONNECTS_WITHIN_NS;
        if (since_ns >= 0)
        {
            arrivals_ns.push_back(since_ns);
        }
    };
    const auto hop = MakeRadioHop(spec, {note_arrival, [](Ptr<Packet>) {}});
    Saturate(*hop, packet_bytes);
    const int64_t end_ns = HOP_CONNECTS_WITHIN_NS + duration_ns;
    AdvanceSimulator(static_cast<double>(end_ns) / 1e9, end_ns);
    simulator.End();
    return arrivals_ns;
}

} // namespace bbrgym
