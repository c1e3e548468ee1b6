// SPDX-License-Identifier: GPL-2.0-only
//
// Where ns-3's releases differ: what the code here uses of ns-3 3.44, and what stands for it in a release that has
// it not. Each is asked for by the feature itself, so no release is named.
#ifndef BBRGYM_NS3_VERSIONS_H
#define BBRGYM_NS3_VERSIONS_H

#include "ns3/rng-seed-manager.h"
#include "ns3/tcp-socket-state.h"

#include <cstdint>

namespace bbrgym
{

/** Whether an event is yet to come. */
template <typename Event>
bool
IsPending(const Event& event)
{
    if constexpr (requires { event.IsPending(); })
    {
        return event.IsPending();
    }
    else
    {
        return event.IsRunning();
    }
}

/** The streams that ns-3 numbers itself begin at 0 again. Without that only a process's first run does. */
template <typename Manager = ns3::RngSeedManager>
void
ResetStreams()
{
    if constexpr (requires { Manager::ResetNextStreamIndex(); })
    {
        Manager::ResetNextStreamIndex();
    }
}

/** A connection's smoothed RTT; where the socket keeps it to itself the last sample stands for it. */
template <typename State>
uint64_t
SmoothedRttUs(const State& tcb)
{
    if constexpr (requires { tcb.m_srtt; })
    {
        return static_cast<uint64_t>(tcb.m_srtt.Get().GetMicroSeconds());
    }
    else
    {
        return static_cast<uint64_t>(tcb.m_lastRtt.Get().GetMicroSeconds());
    }
}

/** Where the socket shows it, the smoothed RTT; it is only to look at. */
template <typename State>
void
TellSmoothedRtt(State& tcb, ns3::Time rtt)
{
    if constexpr (requires { tcb.m_srtt; })
    {
        tcb.m_srtt = rtt;
    }
}

/** Whether the window holds the sender back; where the socket does not tell: no other segment has room in it. */
template <typename State>
bool
IsCwndLimited(const State& tcb)
{
    if constexpr (requires { tcb.m_isCwndLimited; })
    {
        return tcb.m_isCwndLimited;
    }
    else
    {
        return tcb.m_bytesInFlight.Get() + tcb.m_segmentSize > tcb.m_cWnd.Get();
    }
}

} // namespace bbrgym

#endif
