// SPDX-License-Identifier: GPL-2.0-only
//
// The two ends of a flow. FlowApplication opens the connection at its start time, writes as its kind of
// application does, and closes at its stop time. FlowSink reads at once whatever arrives in order.
#ifndef BBRGYM_FLOW_APPLICATION_H
#define BBRGYM_FLOW_APPLICATION_H

#include "flow-sender.h"
#include "link-device.h"

#include "send_buffer.hpp"
#include "scenario.hpp"
#include "write_times.hpp"

#include "ns3/application.h"
#include "ns3/event-id.h"
#include "ns3/tcp-socket.h"

#include <optional>

namespace ns3
{

/** What every socket of a simulation is set to (on the object, never as ns-3 default). */
struct SocketSettings
{
    uint32_t mss_bytes;
    uint32_t send_buffer_bytes; ///< of payload, as the other
    uint32_t receive_buffer_bytes;
    double window_bytes; ///< the largest window that is of use
    bool ecn = false;
    double read_bps = 0; ///< by the receiver; 0: as it arrives

    void ApplyTo(Ptr<TcpSocket> socket) const;
};

class FlowApplication : public Application
{
  public:
    /** What the measurement is told. */
    struct Observer
    {
        std::function<void()> started;
        std::function<void()> stopped;
        std::function<void(bool is_retransmission)> sent;
        FlowSender::RttCallback rtt;
        std::function<void(uint64_t end_bytes, bool is_whole)> frame_written;
    };

    FlowApplication(const bbrgym::Flow& flow, uint64_t run_seed, FlowSender& sender, const SocketSettings& settings,
                    const Address& sink, Observer observer);

    /** A segment of this flow goes on the wire. */
    void NoteSegment(const SegmentView& segment);

  protected:
    void DoDispose() override;

  private:
    void StartApplication() override;
    void StopApplication() override;

    // Bulk: some packets more than the socket can use soon, so that neither the sender ever waits for the
    // application nor much is left to send after the stop.
    void KeepBacklog();
    void RefillSoon();

    /** CBR and on-off: one packet each period while on. */
    void WriteOnBeat();

    // A send buffer that may be full: the writer waits, and goes on when a third is free.
    bbrgym::SendBufferLoad BufferLoad() const;
    void WakeWriter();

    void Write(uint64_t segments);

    bbrgym::App m_app;
    FlowSender& m_sender;
    SocketSettings m_settings;
    Address m_sink;
    Observer m_observer;
    bbrgym::WriteTimes m_write_times;

    Ptr<TcpSocket> m_socket;
    Ptr<TcpLinuxSocket> m_linux_socket; ///< the same; null where it is ns-3's own
    bbrgym::SendBuffer m_send_buffer;   ///< ample where the socket is ns-3's own
    EventId m_event;
    uint64_t m_backlog_bytes = 0; ///< to have unsent after each refill
    uint64_t m_written_bytes = 0;
    uint64_t m_sent_bytes = 0; ///< of payload, each byte once
    uint32_t m_next_seq = 1;   ///< after the SYN
};

class FlowSink : public Application
{
  public:
    /** `facts`: of a receiver that is Linux's; nothing: ns-3's own. */
    FlowSink(const Address& listen, const SocketSettings& settings, std::optional<bbrgym::SocketFacts> facts,
             std::function<void(uint32_t bytes)> readable);

  protected:
    void DoDispose() override;

  private:
    void StartApplication() override;
    Ptr<TcpSocket> MakeListener();
    void Read(Ptr<Socket> socket);

    Address m_listen;
    SocketSettings m_settings;
    std::optional<bbrgym::SocketFacts> m_facts;
    std::function<void(uint32_t)> m_readable;
    Ptr<TcpSocket> m_socket;
};

} // namespace ns3

#endif
