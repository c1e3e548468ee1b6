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

#include <cinttypes>
#include <iostream>
#include <sstream>
#include <string>

namespace
{

using namespace bbrgym;

class Connection
{
  public:
    void Run(const std::string& line)
    {
        std::istringstream words(line);
        std::string command;
        words >> command;
        if (command == "reset")
        {
            const auto algorithm = Take<std::string>(words);
            m_mss_bytes = Take<uint32_t>(words);
            m_received_bytes = Take<uint32_t>(words);
            Reset(algorithm, Take<std::string>(words));
        }
        else if (command == "fact")
        {
            const auto name = Take<std::string>(words);
            SetFact(name, Take<std::string>(words));
        }
        else if (command == "start")
        {
            const auto now_ns = Take<int64_t>(words);
            m_sender.Start(m_mss_bytes, Take<int64_t>(words), m_stack.socket, now_ns);
        }
        else if (command == "ack")
        {
            OnAck(words);
        }
        else if (command == "timer")
        {
            std::cout << m_sender.OnTimer(Take<int64_t>(words));
        }
        else if (command == "next")
        {
            const auto now_ns = Take<int64_t>(words);
            Next(m_sender.Next(Take<uint64_t>(words), now_ns));
        }
        else if (command == "new")
        {
            const auto now_ns = Take<int64_t>(words);
            const auto bytes = Take<uint32_t>(words);
            const EcnBits ecn = m_sender.EcnBitsToSend();
            m_sender.OnNewSent(bytes, Take<bool>(words), now_ns);
            std::cout << ecn.ect << ' ' << ecn.cwr << ' ' << m_sender.IsInBurst();
        }
        else if (command == "again")
        {
            const auto now_ns = Take<int64_t>(words);
            const auto serial = Take<uint64_t>(words);
            m_sender.OnRetransmitted(serial, Take<uint32_t>(words), now_ns);
            std::cout << m_sender.IsInBurst();
        }
        else if (command == "probe")
        {
            const auto now_ns = Take<int64_t>(words);
            const auto is_retransmission = Take<bool>(words);
            m_sender.OnProbeSent(is_retransmission, Take<uint32_t>(words), now_ns);
        }
        else if (command == "quiet")
        {
            const auto now_ns = Take<int64_t>(words);
            const auto has_unsent = Take<bool>(words);
            const auto has_sent = Take<bool>(words);
            m_sender.ValidateCwnd(has_unsent, has_sent, Take<bool>(words), now_ns);
        }
        else if (command == "write")
        {
            m_sender.BeforeWrite(Take<bool>(words));
        }
        else if (command == "state")
        {
            State(Take<int64_t>(words));
        }
        else if (command == "room")
        {
            Room(words);
        }
        else if (command == "wakes")
        {
            std::cout << m_buffer.WakesWriter(Load(Take<uint64_t>(words)));
        }
        else if (command == "take")
        {
            TakeSegment(words);
        }
        else if (command == "acknowledge")
        {
            Acknowledge();
        }
        else if (command == "handshake")
        {
            const auto now_ns = Take<int64_t>(words);
            Take<bool>(words) ? m_receiver.NoteEstablished(now_ns) : m_receiver.NoteSynAck(now_ns);
        }
        else if (command == "deadlines")
        {
            Deadline(m_sender.TimerDeadlineNs());
            Deadline(m_sender.PacingDeadlineNs());
            Deadline(m_receiver.DelayedAckDeadlineNs());
        }
        else
        {
            throw std::invalid_argument("command: '" + command + "' is none of those that binding.cc lists");
        }
        std::cout << std::endl;
    }

  private:
    template <typename T>
    static T Take(std::istringstream& words)
    {
        T value;
        if (!(words >> value))
        {
            throw std::invalid_argument("arguments: one is missing, or not of its type");
        }
        return value;
    }

    static void Deadline(int64_t time_ns) { std::cout << (time_ns == NEVER_NS ? -1 : time_ns) << ' '; }

    void Reset(const std::string& algorithm, const std::string& preset)
    {
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

    void SetFact(const std::string& name, const std::string& value)
    {
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

    void OnAck(std::istringstream& words)
    {
        const auto now_ns = Take<int64_t>(words);
        const auto una = Take<uint64_t>(words);
        const auto ece = Take<bool>(words);
        std::vector<SerialRange> blocks;
        for (SerialRange block; words >> block.begin >> block.end;)
        {
            blocks.push_back(block);
        }
        m_sender.OnAck(una, blocks, now_ns, ece);
    }

    static void Next(const ToSend& next)
    {
        if (next.kind == ToSend::Kind::RETRANSMIT)
        {
            std::cout << "again " << next.serial;
        }
        else
        {
            std::cout << (next.kind == ToSend::Kind::NEW ? "new" : "nothing");
        }
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

    void Room(std::istringstream& words)
    {
        const auto size = Take<int64_t>(words);
        if (size != 0)
        {
            m_stack.socket.send_buffer_bytes = size;
            m_buffer.Reset(m_stack.socket, m_mss_bytes, !m_sender.GetController().IsLossBased());
        }
        const auto wanted = Take<uint64_t>(words);
        std::cout << m_buffer.Accept(wanted, Load(Take<uint64_t>(words)));
    }

    void TakeSegment(std::istringstream& words)
    {
        const auto now_ns = Take<int64_t>(words);
        const auto serial = Take<uint64_t>(words);
        EcnBits ecn;
        ecn.ect = Take<bool>(words);
        ecn.ce = Take<bool>(words);
        ecn.cwr = Take<bool>(words);
        const bool answers = m_receiver.OnSegment(serial, now_ns, ecn).answer_at_once;
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
        put("cwnd", m_sender.WindowPkts());
        put("ssthresh", cc.ssthresh_pkts);
        put("packets_out", board.PacketsOut());
        put("sacked", board.SackedOut());
        put("lost", board.LostOut());
        put("retrans", board.RetransOut());
        put("in_flight", board.InFlight());
        put("reordering", board.ReorderingPkts());
        put("reord_seen", board.ReorderingCount());
        put("delivered", board.Delivered());
        put("una", board.Una());
        put("next", board.Next());
        put("srtt_us", m_sender.SrttNs() < 0 ? 0 : m_sender.SrttNs() / 1000);
        put("rttvar_us", m_sender.RttVarNs() / 1000);
        put("min_rtt_us", board.MinRttNs() < 0 ? -1 : board.MinRttNs() / 1000);
        put("rto_us", m_sender.RtoNs() / 1000);
        put("rto_deadline_ns", m_sender.RtoDeadlineNs() == NEVER_NS ? -1 : m_sender.RtoDeadlineNs());
        put("backoff", m_sender.Backoff());
        put("sent_pkts", totals.sent_pkts);
        put("retransmitted_pkts", totals.retransmitted_pkts);
        put("rto_count", totals.rto_count);
        put("duplicate_reports", totals.duplicate_reports);
        put("burst_pkts", m_sender.BurstPkts());
        put("pacing_Bps", cc.pacing_Bps);
        put("bw_Bps", cc_bw_Bps(&cc));
        put("app_limited", board.IsAppLimited());
        const int64_t rwnd_us = chrono_us(SendState::RWND_LIMITED);
        const int64_t sndbuf_us = chrono_us(SendState::SNDBUF_LIMITED);
        put("busy_us", chrono_us(SendState::BUSY) + rwnd_us + sndbuf_us);
        put("rwnd_limited_us", rwnd_us);
        put("sndbuf_limited_us", sndbuf_us);
    }

    TcpSender<CcController> m_sender;
    TcpReceiver m_receiver;
    SendBuffer m_buffer;
    Stack m_stack;
    uint32_t m_mss_bytes = 1;
    uint32_t m_received_bytes = 1; ///< of the segments that arrive
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
