// SPDX-License-Identifier: GPL-2.0-only
//
// The bottleneck: a queue, a server that drains it at the link's rate or at the opportunities of a trace, and random
// loss. The link's delay behind it belongs to the engine.
//
// The packet in transmission is not in the queue. When the rate changes, the packet in transmission finishes
// at its old rate. In a trace each opportunity carries its number of bytes from the queue, across packet boundaries;
// an opportunity that finds the queue empty is lost.
#ifndef BBRGYM_TWIN_BOTTLENECK_HPP
#define BBRGYM_TWIN_BOTTLENECK_HPP

#include "queue.hpp"

#include "loss.hpp"
#include "measurement.hpp"
#include "opportunities.hpp"

#include <optional>

namespace bbrgym
{

class Bottleneck
{
  public:
    void Reset(const Link& link, uint32_t packet_bytes, uint64_t run_seed);

    /** A packet reaches the queue. True: the server was idle and has work now, see NextServiceNs. */
    bool Arrive(const QueuedPacket& packet, int64_t now_ns, Measurement& measurement);

    /** The time of the server's next work; NEVER_NS: none until a packet arrives. */
    int64_t NextServiceNs() const { return m_next_service_ns; }

    /**
     * Call at NextServiceNs. Hands each packet that gets through to `deliver`, in order, before the transmission of
     * the next one begins.
     */
    template <class Deliver>
    void Serve(int64_t now_ns, Measurement& measurement, Deliver&& deliver);

    void SetRate(double rate_bps, int64_t now_ns);
    void SetLossRate(double rate) { m_loss->SetRate(rate); }

    /** Bytes the link could have carried until now. */
    double CapacityBytes(int64_t now_ns) const;
    /** Integral over time of the queued bytes until now, in byte nanoseconds. */
    double QueueByteNs(int64_t now_ns) const;

    const PacketQueue& Queue() const { return m_queue; }
    /** The packet in transmission; null: none. */
    const QueuedPacket* InService() const { return m_is_serving ? &m_in_service : nullptr; }

  private:
    void NoteQueueLength(int64_t now_ns);
    bool TakeNext(int64_t now_ns, Measurement& measurement);
    void StartAtRate(int64_t now_ns, Measurement& measurement);
    void AwaitOpportunity(int64_t now_ns);
    /** The packet in service leaves; false: it is lost at random. */
    bool Depart(Measurement& measurement);

    PacketQueue m_queue;
    std::optional<LossModel> m_loss; ///< always there after Reset
    double m_rate_bps = 0;
    double m_full_service_ns = 0; ///< of a full packet
    uint32_t m_packet_bytes = 0;
    std::optional<Opportunities> m_trace;
    QueuedPacket m_in_service{};
    bool m_is_serving = false;
    uint32_t m_bytes_left = 0;          ///< of the packet in service; used with a trace
    uint64_t m_opportunity_bytes = 0;   ///< of the next opportunity
    int64_t m_next_service_ns = NEVER_NS;

    double m_capacity_bytes = 0; ///< until m_rate_since_ns
    int64_t m_rate_since_ns = 0;
    double m_queue_byte_ns = 0; ///< until m_queue_since_ns
    int64_t m_queue_since_ns = 0;
};

template <class Deliver>
void
Bottleneck::Serve(int64_t now_ns, Measurement& measurement, Deliver&& deliver)
{
    m_next_service_ns = NEVER_NS;
    if (!m_trace)
    {
        if (Depart(measurement))
        {
            deliver(m_in_service);
        }
        StartAtRate(now_ns, measurement);
        return;
    }
    uint64_t bytes = m_opportunity_bytes;
    while (bytes > 0 && (m_is_serving || TakeNext(now_ns, measurement)))
    {
        const auto sent = static_cast<uint32_t>(std::min<uint64_t>(bytes, m_bytes_left));
        bytes -= sent;
        m_bytes_left -= sent;
        if (m_bytes_left == 0)
        {
            if (Depart(measurement))
            {
                deliver(m_in_service);
            }
        }
    }
    AwaitOpportunity(now_ns);
}

} // namespace bbrgym

#endif
