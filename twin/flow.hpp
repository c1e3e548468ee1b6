// SPDX-License-Identifier: GPL-2.0-only
//
// One connection: application, sender, the pipes around the bottleneck, receiver. Plain data; the engine holds the
// logic.
#ifndef BBRGYM_TWIN_FLOW_HPP
#define BBRGYM_TWIN_FLOW_HPP

#include "packet.hpp"

#include "ack_record.hpp"
#include "cc_controller.hpp"
#include "receiver.hpp"
#include "ring.hpp"
#include "send_buffer.hpp"
#include "sender.hpp"

#include "scenario.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace bbrgym
{

struct FlowState
{
    // Constant during a run.
    int64_t access_ns = 0;
    int64_t return_ns = 0;
    uint32_t index = 0;       ///< among the flows
    uint32_t syn_count = 0;   ///< sent while connecting
    uint32_t first_there = 0; ///< hop of its data
    uint32_t first_back = 0;  ///< hop of its ACKs; Hop::NONE: nothing queues there

    TcpSender sender;
    TcpReceiver receiver;
    bool has_timestamps = false;  ///< constant during a run, as the next one
    bool is_traced = false;       ///< its ACKs are, or the packets of all
    bool is_established = false;  ///< at the sender
    bool has_syn_arrived = false; ///< at the receiver
    bool has_answered_syn = false;
    bool is_accepted = false;  ///< at the receiver
    bool is_running = false;   ///< the application is at work
    uint64_t window_pkts = 0;  ///< for which the receiver has room, as the sender knows
    uint64_t arrived_pkts = 0; ///< data, at the receiver

    // The way there, up to the queue, and back.
    Ring<TrainInPipe> access;
    Ring<AckInPipe> return_path;
    Ring<SeqnoRange> return_path_blocks;
    Ring<uint64_t> return_path_windows; ///< ends of the windows announced, where the receive buffer is not ample
    Ring<int64_t> return_path_echoes;   ///< of timestamps in ms, where the stack has them

    int64_t send_event_ns = NEVER_NS; ///< when the SEND event is due; NEVER_NS: there is none
    // The times of this flow's timers in the event queue; NEVER_NS: none. An event at another time is stale.
    int64_t timer_event_ns = NEVER_NS;
    int64_t delayed_ack_event_ns = NEVER_NS;
    int64_t delayed_ack_until_ns = NEVER_NS; ///< deadline that has been armed since the last ACK; NEVER_NS: none
    uint64_t delayed_ack_order = 0;          ///< of that deadline
    int64_t app_event_ns = NEVER_NS;
    int64_t syn_event_ns = NEVER_NS;

    // Connecting.
    int64_t syn_sent_ns = 0;

    // The application: segments written, ever; those below sender.Board().Next() have been sent.
    uint64_t written = 0;
    uint64_t backlog_pkts = 0;         ///< bulk: unsent packets after each refill
    uint64_t refills_from = NO_REFILL; ///< bulk: less than half of them are unsent once this segment is the next one

    static constexpr uint64_t NO_REFILL = std::numeric_limits<uint64_t>::max();
    SendBuffer send_buffer;

    std::size_t max_trace_rows = 0;
    std::vector<AckRecord> trace;

    /** Call when what the next refill depends on has changed. */
    void PlanRefill()
    {
        const bool refills = backlog_pkts > 0 && is_running;
        refills_from = refills ? written - std::min(written, (backlog_pkts - 1) / 2) : NO_REFILL;
    }

    bool HasUnsent() const { return written > sender.Board().Next(); }
};

static_assert(sizeof(FlowState) <= 4096, "a flow's state fits a page of memory");

} // namespace bbrgym

#endif
