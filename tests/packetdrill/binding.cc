// SPDX-License-Identifier: GPL-2.0-only
//
// The sender and the receiver of tcp/ as a program: a command a line on the standard input, an answer a line on the
// standard output. binding.py speaks to it. Times are nanoseconds; numbers are decimal; a flag is 0 or 1.
//
//   reset ALGORITHM MSS RECEIVED PRESET    a new connection, with the facts of a preset of stacks
//   fact NAME VALUE                  a fact of the stack; the name of a choice, or a number
//   start NOW RTT                    the connection stands; RTT of the handshake, or -1
//   ack NOW UNA ECHO BEGIN END ...   an ACK arrives, with its SACK blocks
//   timer NOW                        a timer is due           -> 1: a probe is to be sent
//   next NOW PACKETS                 what may leave           -> nothing | new | again SERIAL
//   new NOW BYTES RUNT               a new segment leaves     -> CAPABLE REDUCED JOINED
//   again NOW SERIAL BYTES           a segment leaves again   -> JOINED
//   probe NOW RETRANSMISSION BYTES   a probe left
//   quiet NOW UNSENT SENT WAITS      nothing more to send
//   write UNSENT                     the application writes
//   state NOW                        the sender's state       -> NAME VALUE ...
//   room SIZE WANTED UNSENT          of a send buffer         -> segments it takes; SIZE 0: the buffer as it is
//   wakes UNSENT                     room again?              -> 0 or 1
//   take NOW SERIAL CAPABLE MARKED REDUCED    a segment arrives -> 1: it is to be answered at once; NEXT
//   acknowledge NOW                  an ACK leaves            -> NEXT ECHO WINDOW BEGIN END ...
//   handshake NOW ENDS               a SYN-ACK leaves, or (ENDS) the handshake is over
//   deadlines                                                 -> timer, pacing, delayed ACK; -1: none
#include "flow.hpp"

#include <algorithm>
#include <iostream>
#include <iterator>
#include <sstream>
#include <string>
#include <tuple>

namespace
{

using namespace bbrgym;

class Connection
{
  public:
    void Run(const std::string& line)
    {
        std::istringstream words(line);
        const auto [command] = Take<std::string>(words);
        const auto found = std::ranges::find(COMMANDS, command, &Command::name);
        if (found == std::end(COMMANDS))
        {
            throw std::invalid_argument("command: '" + command + "' is none of those that binding.cc lists");
        }
        found->run(*this, words);
        std::cout << std::endl;
    }

  private:
    using Words = std::istringstream;

    struct Command
    {
        const char* name;
        void (*run)(Connection&, Words&);
    };

    static const Command COMMANDS[18];

    /** Returns the next words, in their order. */
    template <typename... T>
    static std::tuple<T...> Take(Words& words)
    {
        const auto one = [&words]<typename U>(U value) {
            if (!(words >> value))
            {
                throw std::invalid_argument("arguments: one is missing, or not of its type");
            }
            return value;
        };
        return std::tuple<T...>{one(T{})...};
    }

    static void Deadline(int64_t time_ns) { std::cout << (time_ns == NEVER_NS ? -1 : time_ns) << ' '; }

    void Reset(Words& words)
    {
        const auto [algorithm, mss_bytes, received_bytes, preset] = Take<std::string, uint32_t, uint32_t, std::string>(words);
        m_mss_bytes = mss_bytes;
        m_received_bytes = received_bytes;
        cc_params params{};
        cc_params_init(&params, VariantOf(algorithm));
        const auto found = FindStackPreset(preset);
        if (!found)
        {
            throw std::invalid_argument("preset: '" + preset + "' is none of world/stack.hpp");
        }
        m_stack = StackOf(*found);
        params.stack = m_stack.algorithm;
        m_sender.Reset(0);
        m_sender.GetController().Init(params, 1);
        m_receiver.Reset(m_stack.socket, m_received_bytes);
        m_buffer.Reset(m_stack.socket, m_mss_bytes, !m_sender.GetController().IsLossBased());
    }

    static cc_variant VariantOf(const std::string& name)
    {
        static constexpr const char* names[] = {
#define CC_VARIANT(id, name, ...) name,
#include "variants.def"
#undef CC_VARIANT
        };
        for (int i = 0; i < CC_VARIANT_COUNT; ++i)
        {
            if (name == names[i])
            {
                return static_cast<cc_variant>(i);
            }
        }
        throw std::invalid_argument("algorithm: '" + name + "' is not a variant of cc/variants.def");
    }

    void SetFact(Words& words)
    {
        const auto [name, value] = Take<std::string, std::string>(words);
        for (const StackFact& fact : StackFacts())
        {
            if (fact.name != name)
            {
                continue;
            }
            const auto choice = std::ranges::find(fact.choices, value);
            const auto index = choice - fact.choices.begin();
            const bool is_size = fact.kind == StackFactKind::SIZE;
            fact.set(m_stack, choice == fact.choices.end() ? std::stoll(value) : is_size ? -index : index);
            CcController& controller = m_sender.GetController();
            cc_params params = controller.Params();
            params.stack = m_stack.algorithm;
            controller.SetParams(params);
            m_receiver.Reset(m_stack.socket, m_received_bytes);
            return;
        }
        throw std::invalid_argument("fact: '" + name + "' is in neither cc/stack.def nor world/socket.def");
    }

    void OnAck(Words& words)
    {
        const auto [now_ns, una, ece] = Take<int64_t, uint64_t, bool>(words);
        std::vector<SerialRange> blocks;
        for (SerialRange block; words >> block.begin >> block.end;)
        {
            blocks.push_back(block);
        }
        m_sender.OnAck(una, blocks, now_ns, ece);
    }

    void Next(Words& words)
    {
        const auto [now_ns, unsent_pkts] = Take<int64_t, uint64_t>(words);
        const ToSend next = m_sender.Next(unsent_pkts, now_ns);
        if (next.kind == ToSend::Kind::RETRANSMIT)
        {
            std::cout << "again " << next.serial;
        }
        else
        {
            std::cout << (next.kind == ToSend::Kind::NEW ? "new" : "nothing");
        }
    }

    void SendNew(Words& words)
    {
        const auto [now_ns, bytes, is_runt] = Take<int64_t, uint32_t, bool>(words);
        const EcnBits ecn = m_sender.EcnBitsToSend();
        m_sender.OnNewSent(bytes, is_runt, now_ns);
        std::cout << ecn.ect << ' ' << ecn.cwr << ' ' << m_sender.IsInBurst();
    }

    SendBufferLoad Load(uint64_t unsent_pkts) const
    {
        const Scoreboard& board = m_sender.Board();
        return {.unsent_pkts = unsent_pkts,
                .out_pkts = board.PacketsOut(),
                .sacked_pkts = board.SackedOut(),
                .in_flight_pkts = board.InFlight(),
                .cwnd_pkts = m_sender.WindowPkts(),
                .burst_pkts = m_sender.BurstPkts(),
                .in_recovery = m_sender.LossState() >= CC_CA_RECOVERY};
    }

    void Room(Words& words)
    {
        const auto [size_bytes, wanted_pkts, unsent_pkts] = Take<int64_t, uint64_t, uint64_t>(words);
        if (size_bytes != 0)
        {
            m_stack.socket.send_buffer_bytes = size_bytes;
            m_buffer.Reset(m_stack.socket, m_mss_bytes, !m_sender.GetController().IsLossBased());
        }
        std::cout << m_buffer.Accept(wanted_pkts, Load(unsent_pkts));
    }

    void TakeSegment(Words& words)
    {
        const auto [now_ns, serial, ect, ce, cwr] = Take<int64_t, uint64_t, bool, bool, bool>(words);
        const bool answers = m_receiver.OnSegment(serial, now_ns, {.ect = ect, .ce = ce, .cwr = cwr}).answer_at_once;
        std::cout << answers << ' ' << m_receiver.Next();
    }

    void Acknowledge()
    {
        std::array<SerialRange, MAX_SACK_BLOCKS> blocks;
        const bool echoes = m_receiver.Echo();
        const std::size_t count = m_receiver.Acknowledge(blocks);
        std::cout << m_receiver.Next() << ' ' << echoes << ' ';
        m_receiver.Announce();
        std::cout << m_receiver.Window().AnnouncedBytes(m_receiver.Next());
        for (std::size_t i = 0; i < count; ++i)
        {
            std::cout << ' ' << blocks[i].begin << ' ' << blocks[i].end;
        }
    }

    void State(int64_t now_ns)
    {
        const cc_state& cc = m_sender.GetController().State();
        const Scoreboard& board = m_sender.Board();
        const SenderTotals& totals = m_sender.Totals();
        const auto put = [](const char* name, auto value) { std::cout << name << ' ' << value << ' '; };
        const auto chrono_us = [&](SendState state) { return m_sender.Chrono().TotalNs(state, now_ns) / 1000; };
        put("ca_state", static_cast<int>(m_sender.LossState()));
        put("snd_cwnd", m_sender.WindowPkts());
        put("snd_ssthresh", cc.ssthresh_pkts);
        put("unacked", board.PacketsOut());
        put("sacked", board.SackedOut());
        put("lost", board.LostOut());
        put("retrans", board.RetransOut());
        put("reordering", board.ReorderingPkts());
        put("reord_seen", board.ReorderingCount());
        put("delivered", board.Delivered());
        put("rtt", m_sender.SrttNs() < 0 ? 0 : m_sender.SrttNs() / 1000);
        put("rttvar", m_sender.RttVarNs() / 1000);
        put("min_rtt", board.MinRttNs() < 0 ? -1 : board.MinRttNs() / 1000);
        put("rto", m_sender.RtoNs() / 1000);
        put("backoff", m_sender.Backoff());
        put("data_segs_out", totals.sent_pkts);
        put("total_retrans", totals.retransmitted_pkts);
        put("total_rto", totals.rto_count);
        put("dsack_dups", totals.duplicate_reports);
        put("pacing_rate", cc.pacing_Bps);
        put("delivery_rate_app_limited", board.IsAppLimited());
        const int64_t rwnd_us = chrono_us(SendState::RWND_LIMITED);
        const int64_t sndbuf_us = chrono_us(SendState::SNDBUF_LIMITED);
        put("busy_time", chrono_us(SendState::BUSY) + rwnd_us + sndbuf_us);
        put("rwnd_limited", rwnd_us);
        put("sndbuf_limited", sndbuf_us);
    }

    TcpSender<CcController> m_sender;
    TcpReceiver m_receiver;
    SendBuffer m_buffer;
    Stack m_stack;
    uint32_t m_mss_bytes = 1;
    uint32_t m_received_bytes = 1; ///< of the segments that arrive
};

const Connection::Command Connection::COMMANDS[] = {
    {"reset", [](Connection& c, Words& words) { c.Reset(words); }},
    {"fact", [](Connection& c, Words& words) { c.SetFact(words); }},
    {"start",
     [](Connection& c, Words& words) {
         const auto [now_ns, rtt_ns] = Take<int64_t, int64_t>(words);
         c.m_sender.Start(c.m_mss_bytes, rtt_ns, c.m_stack.socket, now_ns);
     }},
    {"ack", [](Connection& c, Words& words) { c.OnAck(words); }},
    {"timer", [](Connection& c, Words& words) { std::cout << c.m_sender.OnTimer(std::get<0>(Take<int64_t>(words))); }},
    {"next", [](Connection& c, Words& words) { c.Next(words); }},
    {"new", [](Connection& c, Words& words) { c.SendNew(words); }},
    {"again",
     [](Connection& c, Words& words) {
         const auto [now_ns, serial, bytes] = Take<int64_t, uint64_t, uint32_t>(words);
         c.m_sender.OnRetransmitted(serial, bytes, now_ns);
         std::cout << c.m_sender.IsInBurst();
     }},
    {"probe",
     [](Connection& c, Words& words) {
         const auto [now_ns, is_retransmission, bytes] = Take<int64_t, bool, uint32_t>(words);
         c.m_sender.OnProbeSent(is_retransmission, bytes, now_ns);
     }},
    {"quiet",
     [](Connection& c, Words& words) {
         const auto [now_ns, has_unsent, has_sent, waits] = Take<int64_t, bool, bool, bool>(words);
         c.m_sender.ValidateCwnd(has_unsent, has_sent, waits, now_ns);
     }},
    {"write", [](Connection& c, Words& words) { c.m_sender.BeforeWrite(std::get<0>(Take<bool>(words))); }},
    {"state", [](Connection& c, Words& words) { c.State(std::get<0>(Take<int64_t>(words))); }},
    {"room", [](Connection& c, Words& words) { c.Room(words); }},
    {"wakes", [](Connection& c, Words& words) { std::cout << c.m_buffer.WakesWriter(c.Load(std::get<0>(Take<uint64_t>(words)))); }},
    {"take", [](Connection& c, Words& words) { c.TakeSegment(words); }},
    {"acknowledge", [](Connection& c, Words&) { c.Acknowledge(); }},
    {"handshake",
     [](Connection& c, Words& words) {
         const auto [now_ns, ends] = Take<int64_t, bool>(words);
         ends ? c.m_receiver.NoteEstablished(now_ns) : c.m_receiver.NoteSynAck(now_ns);
     }},
    {"deadlines",
     [](Connection& c, Words&) {
         Deadline(c.m_sender.TimerDeadlineNs());
         Deadline(c.m_sender.PacingDeadlineNs());
         Deadline(c.m_receiver.DelayedAckDeadlineNs());
     }},
};

} // namespace

int
main()
{
    Connection connection;
    for (std::string line; std::getline(std::cin, line);)
    {
        try
        {
            connection.Run(line);
        }
        catch (const std::exception& error)
        {
            std::cout << "error " << error.what() << std::endl;
        }
    }
    return 0;
}
