// SPDX-License-Identifier: GPL-2.0-only
// The ns-3 headers that most files of model/ need, parsed once.
#include "ns3/log.h"
#include "ns3/node.h"
#include "ns3/packet.h"
#include "ns3/simulator.h"
#include "ns3/tcp-l4-protocol.h"
#include "ns3/tcp-socket-base.h"
