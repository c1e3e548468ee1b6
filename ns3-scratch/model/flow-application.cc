// SPDX-License-Identifier: GPL-2.0-only
#include "flow-application.h"

#include "ns3-versions.h"
#include "params.hpp"
#include "run-control.h"
#include "tunable_table.hpp"

#include "ns3/boolean.h"
#include "ns3/packet.h"
#include "ns3/simulator.h"
#include "ns3/tcp-l4-protocol.h"
#include "ns3/string.h"
#include "ns3/uinteger.h"

#include <algorithm>

namespace ns3
{

namespace
{

constexpr uint32_t INITIAL_CWND_PKTS = 10;         // Linux: TCP_INIT_CWND
constexpr uint32_t SYN_TRIES = 20;                 // ns-3 doubles the timer in an int: more would overflow it
constexpr uint32_t DATA_TRIES = 1000;              // a flow is never given up for its losses
constexpr uint32_t DELAYED_ACK_PKTS = 2;           // RFC 5681
const Time DELAYED_ACK_TIMEOUT = MilliSeconds(40); // Linux: TCP_DELACK_MIN
const Time SYN_TIMEOUT = Seconds(1);               // RFC 6298; ns-3's default is 3 s
const Time SYN_ACK_TIMEOUT = Days(365);            // none, as in TcpLinuxSocket: data completes the handshake as well
const Time MIN_RTO = MilliSeconds(200);            // Linux: TCP_RTO_MIN; ns-3's default is 1 s
constexpr uint64_t MIN_BACKLOG_PKTS = 64;
constexpr uint64_t EVERYTHING = uint64_t{1} << 40; // more segments than any buffer takes

} // namespace

void
SocketSettings::ApplyTo(Ptr<TcpSocket> socket) const
{
    socket->SetAttribute("SegmentSize", UintegerValue(mss_bytes));
    socket->SetAttribute("SndBufSize", UintegerValue(send_buffer_bytes));
    socket->SetAttribute("RcvBufSize", UintegerValue(receive_buffer_bytes));
    socket->SetAttribute("InitialCwnd", UintegerValue(INITIAL_CWND_PKTS));
    socket->SetAttribute("ConnTimeout", TimeValue(SYN_TIMEOUT));
    socket->SetAttribute("ConnCount", UintegerValue(SYN_TRIES));
    socket->SetAttribute("DataRetries", UintegerValue(DATA_TRIES));
    socket->SetAttribute("DelAckCount", UintegerValue(DELAYED_ACK_PKTS));
    socket->SetAttribute("DelAckTimeout", TimeValue(DELAYED_ACK_TIMEOUT));
    socket->SetAttribute("MinRto", TimeValue(MIN_RTO));
    socket->SetAttribute("Timestamp", BooleanValue(false)); // its clock ticks in milliseconds
    socket->SetAttribute("Sack", BooleanValue(true));
    socket->SetAttribute("UseEcn", StringValue(ecn ? "On" : "Off"));
}

// ---- FlowApplication ------------------------------------------------------------------------------------

FlowApplication::FlowApplication(const bbrgym::Flow& flow, uint64_t run_seed, FlowSender& sender,
                                 const SocketSettings& settings, const Address& sink, Observer observer)
    : m_app(flow.app),
      m_sender(sender),
      m_settings(settings),
      m_sink(sink),
      m_observer(std::move(observer)),
      m_write_times(flow, settings.mss_bytes, run_seed)
{
    if (const auto variant = bbrgym::FindVariant(flow.cc))
    {
        cc_params params = bbrgym::ParamsOf(flow, *variant, flow.name);
        params.algorithm = cc_chosen_algorithm(&params);
        const uint64_t ample_pkts = settings.send_buffer_bytes / settings.mss_bytes;
        m_send_buffer.Reset(flow.stack.socket, settings.mss_bytes, cc_is_bbr(&params), ample_pkts);
    }
}

void
FlowApplication::StartApplication()
{
    m_socket = m_sender.CreateSocket(GetNode());
    m_sender.Watch(m_socket, m_observer.rtt);
    m_settings.ApplyTo(m_socket);
    m_linux_socket = DynamicCast<TcpLinuxSocket>(m_socket);
    if (m_linux_socket)
    {
        if (!m_send_buffer.IsAmple())
        {
            // What fits is decided here, so ns-3's buffer must not be the smaller one.
            const uint64_t bytes = std::max<uint64_t>(m_settings.send_buffer_bytes, m_send_buffer.LimitBytes());
            m_socket->SetAttribute("SndBufSize", UintegerValue(bytes));
        }
        m_linux_socket->SetSpaceObserver([this] { WakeWriter(); });
    }
    else
    {
        m_socket->SetSendCallback(
            Callback<void, Ptr<Socket>, uint32_t>([this](Ptr<Socket>, uint32_t) { RefillSoon(); }));
    }
    m_observer.started();
    m_socket->Bind();
    m_socket->Connect(m_sink);
    if (std::holds_alternative<bbrgym::Bulk>(m_app))
    {
        KeepBacklog();
    }
    else
    {
        WriteOnBeat();
    }
}

/** What was written is still sent; nothing more is written. The connection stays open: a FIN would be a packet more. */
void
FlowApplication::StopApplication()
{
    m_event.Cancel();
    if (m_linux_socket)
    {
        m_linux_socket->SetWriterWaits(false);
        m_linux_socket->SetSpaceObserver(nullptr);
    }
    m_socket->SetSendCallback(MakeNullCallback<void, Ptr<Socket>, uint32_t>());
    m_observer.stopped();
    m_app = bbrgym::Cbr{}; // no backlog to keep any more
}

void
FlowApplication::NoteSegment(const SegmentView& segment)
{
    if (segment.payload_bytes == 0)
    {
        return;
    }
    const auto beyond = static_cast<int32_t>(segment.seq + segment.payload_bytes - m_next_seq);
    const bool is_retransmission = beyond <= 0;
    if (!is_retransmission)
    {
        m_sent_bytes += static_cast<uint32_t>(beyond);
        m_next_seq += static_cast<uint32_t>(beyond);
        RefillSoon();
    }
    m_observer.sent(is_retransmission);
}

/** Call where there is less to send than before, or more room to write to. */
void
FlowApplication::RefillSoon()
{
    if (std::holds_alternative<bbrgym::Bulk>(m_app) && m_send_buffer.IsAmple() && !bbrgym::IsPending(m_event) &&
        m_written_bytes - m_sent_bytes < m_backlog_bytes / 2)
    {
        m_event = Simulator::ScheduleNow(&FlowApplication::KeepBacklog, this);
    }
}

void
FlowApplication::KeepBacklog()
{
    const uint64_t pkts = std::get<bbrgym::Bulk>(m_app).pkts;
    const uint64_t left = pkts > 0 ? pkts - m_written_bytes / m_settings.mss_bytes : EVERYTHING;
    if (!m_send_buffer.IsAmple())
    {
        Write(left);
        return;
    }
    // Half a window is more than any ACK sets free. ns-3's own windows may be absurd (2^32 - 1 bytes).
    const double window_pkts = std::min(m_sender.State().cwnd_pkts, m_settings.window_bytes / m_settings.mss_bytes);
    m_backlog_bytes = std::max(MIN_BACKLOG_PKTS, static_cast<uint64_t>(window_pkts / 2)) * m_settings.mss_bytes;
    const uint64_t unsent_bytes = m_written_bytes - m_sent_bytes;
    if (unsent_bytes < m_backlog_bytes)
    {
        Write(std::min((m_backlog_bytes - unsent_bytes) / m_settings.mss_bytes, left));
    }
    if (pkts > 0 && m_written_bytes / m_settings.mss_bytes == pkts)
    {
        m_backlog_bytes = 0; // none is needed any more
    }
}

void
FlowApplication::WriteOnBeat()
{
    const uint64_t pkts = m_write_times.Pkts();
    const uint64_t before_bytes = m_written_bytes;
    Write(pkts);
    if (pkts > 0 && std::holds_alternative<bbrgym::Frames>(m_app))
    {
        m_observer.frame_written(m_written_bytes, m_written_bytes - before_bytes == pkts * m_settings.mss_bytes);
    }
    const int64_t now_ns = bbrgym::NowNs();
    m_event =
        Simulator::Schedule(NanoSeconds(m_write_times.NextNs(now_ns) - now_ns), &FlowApplication::WriteOnBeat, this);
}

bbrgym::SendBufferLoad
FlowApplication::BufferLoad() const
{
    bbrgym::SendBufferLoad load;
    load.unsent_pkts = (m_written_bytes - m_sent_bytes) / m_settings.mss_bytes;
    if (m_linux_socket->HasStarted())
    {
        const auto& sender = m_linux_socket->GetSender();
        load.out_pkts = sender.Board().PacketsOut();
        load.sacked_pkts = sender.Board().SackedOut();
        load.in_flight_pkts = sender.Board().InFlight();
        load.cwnd_pkts = sender.WindowPkts();
        load.burst_pkts = sender.BurstPkts();
        load.in_recovery = sender.LossState() >= CC_CA_RECOVERY;
    }
    return load;
}

void
FlowApplication::WakeWriter()
{
    if (!m_send_buffer.HasWaitingWriter())
    {
        return;
    }
    const bool is_woken = m_send_buffer.WakesWriter(BufferLoad());
    m_linux_socket->SetWriterWaits(m_send_buffer.HasWaitingWriter());
    if (is_woken && std::holds_alternative<bbrgym::Bulk>(m_app) && !bbrgym::IsPending(m_event))
    {
        m_event = Simulator::ScheduleNow(&FlowApplication::KeepBacklog, this);
    }
}

/** What the socket's buffer has no room for is never written, as by a live source. */
void
FlowApplication::Write(uint64_t segments)
{
    if (m_linux_socket)
    {
        segments = m_send_buffer.Accept(segments, BufferLoad());
        m_linux_socket->SetWriterWaits(m_send_buffer.HasWaitingWriter());
    }
    else
    {
        segments = std::min<uint64_t>(segments, m_socket->GetTxAvailable() / m_settings.mss_bytes);
    }
    const auto room = static_cast<uint32_t>(segments * m_settings.mss_bytes);
    if (room > 0 && m_socket->Send(Create<Packet>(room), 0) > 0)
    {
        m_written_bytes += room;
    }
}

void
FlowApplication::DoDispose()
{
    m_event.Cancel();
    m_socket = nullptr;
    m_linux_socket = nullptr;
    m_observer = {};
    Application::DoDispose();
}

// ---- FlowSink -------------------------------------------------------------------------------------------

FlowSink::FlowSink(const Address& listen, const SocketSettings& settings, std::optional<bbrgym::SocketFacts> facts,
                   std::function<void(uint32_t bytes)> readable)
    : m_listen(listen),
      m_settings(settings),
      m_facts(facts),
      m_readable(std::move(readable))
{}

void
FlowSink::StartApplication()
{
    m_socket = MakeListener();
    m_socket->Bind(m_listen);
    m_socket->Listen();
    m_socket->SetAcceptCallback(
        MakeNullCallback<bool, Ptr<Socket>, const Address&>(),
        Callback<void, Ptr<Socket>, const Address&>([this](Ptr<Socket> accepted, const Address&) {
            accepted->SetRecvCallback(MakeCallback(&FlowSink::Read, this));
        }));
}

Ptr<TcpSocket>
FlowSink::MakeListener()
{
    if (!m_facts)
    {
        const auto socket = DynamicCast<TcpSocket>(GetNode()->GetObject<TcpL4Protocol>()->CreateSocket());
        m_settings.ApplyTo(socket);
        socket->SetAttribute("ConnTimeout", TimeValue(SYN_ACK_TIMEOUT));
        return socket;
    }
    const auto socket = TcpLinuxSocket::CreateOn(GetNode());
    m_settings.ApplyTo(socket);
    bbrgym::ReceiveWindow window;
    window.Reset(*m_facts, m_settings.mss_bytes);
    if (!window.IsAmple())
    {
        socket->SetAttribute("RcvBufSize", UintegerValue(window.ScaledBytes())); // decides the window scale
    }
    socket->SetReceiver(*m_facts, m_settings.mss_bytes, m_settings.read_bps);
    return socket;
}

void
FlowSink::Read(Ptr<Socket> socket)
{
    uint32_t bytes = 0;
    while (const Ptr<Packet> packet = socket->Recv())
    {
        if (packet->GetSize() == 0) // end of the stream
        {
            break;
        }
        bytes += packet->GetSize();
    }
    if (bytes > 0)
    {
        m_readable(bytes);
    }
}

void
FlowSink::DoDispose()
{
    m_socket = nullptr;
    m_readable = nullptr;
    Application::DoDispose();
}

} // namespace ns3
