// SPDX-License-Identifier: GPL-2.0-only
#include "bottleneck.hpp"

#include <cmath>

namespace bbrgym
{

namespace
{

/** Rounded up, so that the link never carries more than its capacity. */
double
ServiceNs(uint32_t bytes, double rate_bps)
{
    return std::ceil(bytes * 8e9 / rate_bps);
}

} // namespace

void
Bottleneck::Reset(const Link& link, uint32_t packet_bytes, uint64_t run_seed)
{
    PacketQueue queue = std::move(m_queue);
    *this = Bottleneck();
    m_queue = std::move(queue);
    m_queue.Reset(link, packet_bytes, run_seed);
    m_loss.emplace(link.loss, run_seed);
    m_packet_bytes = packet_bytes;
    if (link.trace)
    {
        m_trace.emplace(link.trace->times_ns, link.trace->period_ns, link.trace->opportunity_bytes);
    }
    else
    {
        m_rate_bps = link.rate_bps;
        m_full_service_ns = ServiceNs(packet_bytes, link.rate_bps);
    }
}

bool
Bottleneck::Arrive(const QueuedPacket& packet, int64_t now_ns, Measurement& measurement)
{
    NoteQueueLength(now_ns);
    if (!m_queue.Put(packet, now_ns))
    {
        measurement.QueueDropped(packet.name.flow, packet.name.IsData());
    }
    if (m_next_service_ns != NEVER_NS)
    {
        return false;
    }
    m_trace ? AwaitOpportunity(now_ns) : StartAtRate(now_ns, measurement);
    return m_next_service_ns != NEVER_NS;
}

void
Bottleneck::SetRate(double rate_bps, int64_t now_ns)
{
    m_capacity_bytes = CapacityBytes(now_ns);
    m_rate_since_ns = now_ns;
    m_rate_bps = rate_bps;
    m_full_service_ns = ServiceNs(m_packet_bytes, rate_bps);
}

double
Bottleneck::CapacityBytes(int64_t now_ns) const
{
    if (m_trace)
    {
        return static_cast<double>(m_trace->BytesUntil(now_ns));
    }
    return m_capacity_bytes + m_rate_bps * static_cast<double>(now_ns - m_rate_since_ns) / 8e9;
}

double
Bottleneck::QueueByteNs(int64_t now_ns) const
{
    return m_queue_byte_ns + static_cast<double>(m_queue.Bytes()) * static_cast<double>(now_ns - m_queue_since_ns);
}

/** Accounts for the time in which the queue had its present length; call before the length changes. */
void
Bottleneck::NoteQueueLength(int64_t now_ns)
{
    m_queue_byte_ns = QueueByteNs(now_ns);
    m_queue_since_ns = now_ns;
}

/** Moves the queue's next packet into service; false if there is none. */
bool
Bottleneck::TakeNext(int64_t now_ns, Measurement& measurement)
{
    NoteQueueLength(now_ns);
    m_is_serving = m_queue.Take(m_in_service, now_ns, [&measurement](const QueuedPacket& dropped) {
        measurement.QueueDropped(dropped.name.flow, dropped.name.IsData());
    });
    if (m_is_serving)
    {
        m_bytes_left = m_queue.BytesOf(m_in_service.name);
        measurement.TransmissionBegan(m_in_service.name.flow, now_ns - m_in_service.queued_ns);
    }
    return m_is_serving;
}

void
Bottleneck::StartAtRate(int64_t now_ns, Measurement& measurement)
{
    if (TakeNext(now_ns, measurement))
    {
        const uint32_t bytes = m_queue.BytesOf(m_in_service.name);
        const double service_ns = bytes == m_packet_bytes ? m_full_service_ns : ServiceNs(bytes, m_rate_bps);
        m_next_service_ns = now_ns + static_cast<int64_t>(service_ns);
    }
}

void
Bottleneck::AwaitOpportunity(int64_t now_ns)
{
    if (m_is_serving || !m_queue.Empty())
    {
        const Opportunities::Next next = m_trace->After(now_ns);
        m_opportunity_bytes = next.bytes;
        m_next_service_ns = next.time_ns;
    }
}

bool
Bottleneck::Depart(Measurement& measurement)
{
    m_is_serving = false;
    measurement.Departed(m_in_service.name.flow, m_queue.BytesOf(m_in_service.name));
    if (m_loss->IsLost())
    {
        measurement.RandomLost(m_in_service.name.flow, m_in_service.name.IsData());
        return false;
    }
    return true;
}

} // namespace bbrgym
