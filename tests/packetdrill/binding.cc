// SPDX-License-Identifier: GPL-2.0-only
//
// The sender and the receiver of tcp/ as a Python module. Times are nanoseconds, -1 where there is none.
#include "flow.hpp"
#include "params.hpp"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

namespace py = pybind11;
using namespace bbrgym;

namespace
{

using Blocks = std::vector<std::pair<uint64_t, uint64_t>>;
/** Facts of the stack by name: a number, a flag, or the name of a choice. */
using Facts = std::map<std::string, std::variant<int64_t, std::string>>;

class Connection
{
  public:
    Connection(const std::string& algorithm, uint32_t mss_bytes, uint32_t received_bytes, const std::string& preset,
               const Facts& facts)
        : stack(StackOf(FindStackPreset(preset).value())),
          mss_bytes(mss_bytes)
    {
        for (const auto& [name, value] : facts)
        {
            SetFact(name, value);
        }
        cc_params params = Preset(FindVariant(algorithm).value());
        params.stack = stack.algorithm;
        sender.Reset(0);
        sender.GetController().Init(params, 1);
        receiver.Reset(stack.socket, received_bytes);
        SetSendBuffer(stack.socket.send_buffer_bytes);
    }

    void SetSendBuffer(int64_t size_bytes)
    {
        stack.socket.send_buffer_bytes = size_bytes;
        buffer.Reset(stack.socket, mss_bytes, !sender.GetController().IsLossBased());
    }

    SendBufferLoad Load(uint64_t unsent_pkts) const
    {
        const Scoreboard& board = sender.Board();
        return {.unsent_pkts = unsent_pkts,
                .out_pkts = board.PacketsOut(),
                .sacked_pkts = board.SackedOut(),
                .in_flight_pkts = board.InFlight(),
                .cwnd_pkts = sender.WindowPkts(),
                .burst_pkts = sender.BurstPkts(),
                .in_recovery = sender.LossState() >= CC_CA_RECOVERY};
    }

    TcpSender sender;
    TcpReceiver receiver;
    SendBuffer buffer;
    Stack stack;
    uint32_t mss_bytes;

  private:
    void SetFact(const std::string& name, const Facts::mapped_type& value)
    {
        const auto fact = std::ranges::find(StackFacts(), name, &StackFact::name);
        if (fact == StackFacts().end())
        {
            throw py::value_error("fact: '" + name + "' is in neither cc/stack.def nor world/socket.def");
        }
        if (const auto* number = std::get_if<int64_t>(&value))
        {
            fact->set(stack, *number);
            return;
        }
        const auto index = std::ranges::find(fact->choices, std::get<std::string>(value)) - fact->choices.begin();
        fact->set(stack, fact->kind == StackFactKind::SIZE ? -index : index);
    }
};

void
OnAck(Connection& c, int64_t now_ns, uint64_t una, bool ece, const Blocks& blocks)
{
    std::vector<SeqnoRange> ranges;
    for (const auto& [begin, end] : blocks)
    {
        ranges.push_back({begin, end});
    }
    c.sender.OnAck(una, ranges, now_ns, ece);
}

std::pair<const char*, uint64_t>
Next(Connection& c, int64_t now_ns, uint64_t unsent_pkts)
{
    const ToSend next = c.sender.Next(unsent_pkts, now_ns);
    const bool is_new = next.kind == ToSend::Kind::NEW;
    return {next.kind == ToSend::Kind::RETRANSMIT ? "retransmit" : is_new ? "new" : "nothing", next.seqno};
}

std::tuple<bool, bool, bool>
SendNew(Connection& c, int64_t now_ns, uint32_t bytes, bool is_runt)
{
    const EcnBits ecn = c.sender.EcnBitsToSend();
    c.sender.OnNewSent(bytes, is_runt, now_ns);
    return {ecn.ect, ecn.cwr, c.sender.IsInBurst()};
}

std::pair<bool, uint64_t>
OnSegment(Connection& c, int64_t now_ns, uint64_t seqno, bool ect, bool ce, bool cwr)
{
    const bool answers = c.receiver.OnSegment(seqno, now_ns, {.ect = ect, .ce = ce, .cwr = cwr}).answer_at_once;
    return {answers, c.receiver.Next()};
}

std::tuple<bool, uint64_t, Blocks>
Acknowledge(Connection& c)
{
    std::array<SeqnoRange, MAX_SACK_BLOCKS> ranges;
    const bool echoes = c.receiver.Echo();
    const std::size_t count = c.receiver.Acknowledge(ranges);
    c.receiver.Announce(0); // the application reads at once
    Blocks blocks;
    for (std::size_t i = 0; i < count; ++i)
    {
        blocks.emplace_back(ranges[i].begin, ranges[i].end);
    }
    return {echoes, c.receiver.Window().AnnouncedBytes(c.receiver.Next()), blocks};
}

std::vector<int64_t>
Deadlines(const Connection& c)
{
    std::vector deadlines_ns{c.sender.TimerDeadlineNs(), c.sender.PacingDeadlineNs(),
                             c.receiver.DelayedAckDeadlineNs()};
    std::ranges::replace(deadlines_ns, NEVER_NS, -1);
    return deadlines_ns;
}

/** By the names of struct tcp_info. */
std::map<std::string, int64_t>
State(const Connection& c, int64_t now_ns)
{
    const cc_state& cc = c.sender.GetController().State();
    const Scoreboard& board = c.sender.Board();
    const SenderTotals& totals = c.sender.Totals();
    const auto chrono_us = [&](SendState state) { return c.sender.Chrono().TotalNs(state, now_ns) / 1000; };
    const int64_t rwnd_us = chrono_us(SendState::RWND_LIMITED);
    const int64_t sndbuf_us = chrono_us(SendState::SNDBUF_LIMITED);
    return {{"ca_state", c.sender.LossState()},
            {"snd_cwnd", c.sender.WindowPkts()},
            {"snd_ssthresh", cc.ssthresh_pkts},
            {"unacked", board.PacketsOut()},
            {"sacked", board.SackedOut()},
            {"lost", board.LostOut()},
            {"retrans", board.RetransOut()},
            {"reordering", board.ReorderingPkts()},
            {"reord_seen", board.ReorderingCount()},
            {"delivered", board.Rate().Delivered()},
            {"rtt", std::max<int64_t>(c.sender.SrttNs(), 0) / 1000},
            {"rttvar", c.sender.RttVarNs() / 1000},
            {"min_rtt", board.MinRttNs() < 0 ? -1 : board.MinRttNs() / 1000},
            {"rto", c.sender.RtoNs() / 1000},
            {"backoff", c.sender.Backoff()},
            {"data_segs_out", totals.sent_pkts},
            {"total_retrans", totals.retransmitted_pkts},
            {"total_rto", totals.rto_count},
            {"dsack_dups", totals.duplicate_reports},
            {"pacing_rate", std::min<uint64_t>(cc.pacing_Bps, INT64_MAX)},
            {"delivery_rate_app_limited", board.Rate().IsAppLimited()},
            {"busy_time", chrono_us(SendState::BUSY) + rwnd_us + sndbuf_us},
            {"rwnd_limited", rwnd_us},
            {"sndbuf_limited", sndbuf_us}};
}

} // namespace

PYBIND11_MODULE(packetdrill_tcp, m)
{
    using C = Connection;
    py::class_<C>(m, "Connection")
        .def(py::init<const std::string&, uint32_t, uint32_t, const std::string&, const Facts&>())
        .def("start",
             [](C& c, int64_t now_ns, int64_t rtt_ns) { c.sender.Start(c.mss_bytes, rtt_ns, c.stack.socket, now_ns); })
        .def("on_ack", &OnAck)
        .def(
            "on_timer", [](C& c, int64_t now_ns) { return c.sender.OnTimer(now_ns); }, "Whether a probe is to be sent.")
        .def("next", &Next, "What may leave: nothing, new, or retransmit and which.")
        .def("send_new", &SendNew, "ECT, CWR, and whether the burst goes on.")
        .def("retransmit",
             [](C& c, int64_t now_ns, uint64_t seqno, uint32_t bytes) {
                 c.sender.OnRetransmitted(seqno, bytes, now_ns);
                 return c.sender.IsInBurst();
             })
        .def("on_probe_sent", [](C& c, int64_t now_ns, bool is_retransmission,
                                 uint32_t bytes) { c.sender.OnProbeSent(is_retransmission, bytes, now_ns); })
        .def("validate_cwnd", [](C& c, int64_t now_ns, bool has_unsent, bool has_sent,
                                 bool waits) { c.sender.ValidateCwnd(has_unsent, has_sent, waits, now_ns); })
        .def("before_write", [](C& c, bool has_unsent) { c.sender.BeforeWrite(has_unsent); })
        .def("state", &State)
        .def("set_send_buffer", &C::SetSendBuffer)
        .def("accept", [](C& c, uint64_t wanted, uint64_t unsent) { return c.buffer.Accept(wanted, c.Load(unsent)); })
        .def("wakes_writer", [](C& c, uint64_t unsent) { return c.buffer.WakesWriter(c.Load(unsent)); })
        .def("on_segment", &OnSegment, "Whether it is to be answered at once, and the next one in order.")
        .def("acknowledge", &Acknowledge, "Echo, window and SACK blocks of an ACK that leaves.")
        .def("note_syn_ack", [](C& c, int64_t now_ns) { c.receiver.NoteSynAck(now_ns); })
        .def("note_established", [](C& c, int64_t now_ns) { c.receiver.NoteEstablished(now_ns); })
        .def("deadlines", &Deadlines, "Of timer, pacing and delayed ACK.");
}
