// SPDX-License-Identifier: GPL-2.0-only
//
// Where ns-3's releases differ: what the code here uses of ns-3 3.44, and what stands for it in a release that has
// it not. Each is asked for by the feature itself, so no release is named.
#ifndef BBRGYM_NS3_VERSIONS_H
#define BBRGYM_NS3_VERSIONS_H

#include "ns3/nstime.h"
#include "ns3/rng-seed-manager.h"

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

} // namespace bbrgym

#endif
