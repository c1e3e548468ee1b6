// SPDX-License-Identifier: GPL-2.0-only
//
// The bottleneck: a queue discipline used directly as queue, a server that drains it at the link's rate or at
// the opportunities of a trace, random loss, then the link's delay.
//
//   Send -> queue -> [ server ] -> departure counted -> lost at random? -> delay -> far end
//
// The packet in transmission is not in the queue. When the rate changes, the packet in transmission finishes
// at its old rate. In a trace each opportunity carries its bytes of whatever waits, across packet borders; what
// finds the queue empty is lost. ns-3's traffic-control layer is bypassed.
#ifndef BBRGYM_BOTTLENECK_DEVICE_H
#define BBRGYM_BOTTLENECK_DEVICE_H

#include "link-device.h"

#include "loss.hpp"
#include "opportunities.hpp"

#include "ns3/event-id.h"
#include "ns3/queue-disc.h"

#include <optional>

namespace ns3
{

/** What happens to data segments at the bottleneck; `flow` is the destination port's offset. */
class BottleneckObserver
{
  public:
    virtual ~BottleneckObserver() = default;
    virtual void QueueDropped(std::size_t flow, uint32_t payload_bytes) = 0;
    /** Transmission begins after `waited` in the queue. */
    virtual void Started(std::size_t flow, Time waited) = 0;
    virtual void Departed(std::size_t flow, uint32_t ip_bytes) = 0;
    virtual void RandomLost(std::size_t flow, uint32_t payload_bytes) = 0;
};

class BottleneckDevice : public LinkDevice
{
  public:
    static TypeId GetTypeId();

    BottleneckDevice(const bbrgym::Link& link, uint64_t run_seed, Ptr<QueueDisc> queue, uint16_t first_port);

    void Connect(Ptr<LinkDevice> to) { m_path.to = to; }
    void SetObserver(BottleneckObserver* observer) { m_observer = observer; }

    void SetRate(double rate_bps);
    void SetDelay(Time delay) { m_path.delay = delay; }
    void SetLossRate(double rate) { m_loss.SetRate(rate); }

    /** Bytes the link could have carried until now. */
    double CapacityBytes() const;
    /** Integral over time of the queued bytes until now, in byte nanoseconds. */
    double QueueByteNs() const;

    bool Send(Ptr<Packet> packet, const Address& destination, uint16_t protocol) override;

  protected:
    void DoDispose() override;

  private:
    class Item;

    void NoteQueueLength();
    bool TakeNext();
    void StartAtRate();
    void FinishAtRate();
    void AwaitOpportunity();
    void UseOpportunity(uint64_t bytes);
    void Depart();
    void NoteDrop(Ptr<const QueueDiscItem> item);

    Ptr<QueueDisc> m_queue;
    uint16_t m_first_port;
    Path m_path;
    bbrgym::LossModel m_loss;
    BottleneckObserver* m_observer = nullptr;

    double m_rate_bps;
    std::optional<bbrgym::Opportunities> m_trace;
    Ptr<Item> m_in_service;
    uint32_t m_bytes_left = 0; ///< of the packet in service; used with a trace
    bool m_is_waiting = false; ///< an event for the end of service or the next opportunity is scheduled

    double m_capacity_bytes = 0; ///< until m_rate_since
    Time m_rate_since;
    double m_queue_byte_ns = 0; ///< until m_queue_since
    Time m_queue_since;
};

} // namespace ns3

#endif
