// SPDX-License-Identifier: GPL-2.0-only
//
// When the receiver answers, with which SACK blocks, and how it echoes marks. Arrivals come a millisecond apart; in the
// strings `!` is an answer at once, `E` one with an echo, `.` none, `@` one that came later.
#include "facts.hpp"
#include "receiver.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

using namespace bbrgym;

namespace
{

constexpr int64_t MS = 1'000'000;
constexpr int64_t SECOND = 1000 * MS;
constexpr SocketFacts LINUX{.window_growth_acks = false, .adaptive_delayed_acks = false, .compressed_acks = 0};
constexpr SocketFacts NS3{.d_sack = false,
                          .quick_acks = false,
                          .window_growth_acks = false,
                          .adaptive_delayed_acks = false,
                          .compressed_acks = 0};
constexpr EcnBits PLAIN{.ect = true};
constexpr EcnBits MARKED{.ect = true, .ce = true};
constexpr EcnBits REDUCED{.ect = true, .cwr = true};
constexpr EcnBits BOTH{.ect = true, .ce = true, .cwr = true};

std::string
Repeated(std::size_t times, const std::string& answers)
{
    std::string all;
    for (std::size_t i = 0; i < times; ++i)
    {
        all += answers;
    }
    return all;
}

/** A conversation with the receiver. */
class Talk
{
  public:
    explicit Talk(const SocketFacts& facts) { m_receiver.Reset(facts, 1448); }

    /** Returns the answers to segments; what is due before one is answered. */
    std::string Arrive(uint64_t begin, uint64_t end, EcnBits bits = {}, int64_t apart_ns = MS)
    {
        std::string answers;
        for (uint64_t seqno = begin; seqno < end; ++seqno)
        {
            answers += Wait(apart_ns);
            if (m_receiver.OnSegment(seqno, m_now_ns, bits).answer_at_once)
            {
                Answer();
                answers += m_receiver.Echo() ? "E" : "!";
            }
            else
            {
                answers += ".";
            }
        }
        return answers;
    }
    std::string Arrive(uint64_t seqno, EcnBits bits = {}) { return Arrive(seqno, seqno + 1, bits); }

    std::string Wait(int64_t time_ns)
    {
        m_now_ns += time_ns;
        const int64_t deadline_ns = m_receiver.DelayedAckDeadlineNs();
        const bool is_due = deadline_ns <= m_now_ns;
        if (is_due)
        {
            delayed_ms = double(deadline_ns - m_last_ns) / MS;
            m_receiver.OnTimer(deadline_ns);
            Answer();
        }
        m_last_ns = m_now_ns;
        return is_due ? "@" : "";
    }

    void NoteHandshake(int64_t rtt_ns)
    {
        m_receiver.NoteSynAck(m_now_ns);
        m_receiver.NoteEstablished(m_now_ns += rtt_ns);
        m_last_ns = m_now_ns;
    }

    std::string ack;       ///< the last one, with its blocks
    double delayed_ms = 0; ///< since the last arrival, of the last answer that came later

  private:
    void Answer()
    {
        std::array<SeqnoRange, MAX_SACK_BLOCKS> blocks;
        const std::size_t count = m_receiver.Acknowledge(blocks);
        ack = std::to_string(m_receiver.Next());
        for (std::size_t i = 0; i < count; ++i)
        {
            ack += " " + std::to_string(blocks[i].begin) + "-" + std::to_string(blocks[i].end);
        }
    }

    TcpReceiver m_receiver;
    int64_t m_now_ns = 0;
    int64_t m_last_ns = 0;
};

} // namespace

// ---- in order -------------------------------------------------------------------------------------------

TEST(linux_answers_sixteen_at_once_then_every_second_and_a_lone_one_after_40_ms)
{
    Talk talk(LINUX);
    Equal(talk.Arrive(0, 16), Repeated(16, "!"));
    Equal(talk.Arrive(16, 21), ".!.!.");
    Equal(talk.Wait(100 * MS), "@");
    Equal(talk.delayed_ms, 40);
}

/** A window's growth up to the first buffer, which takes less than a round trip of 44 segments. */
TEST(linux_answers_at_once_while_its_window_grows)
{
    Talk talk(SocketFacts{});
    // 131072 bytes less a segment of 2304, of which 160/256 are payload: six times two segments above the first 44.
    constexpr std::size_t CEILING_BYTES = (131'072 - 2304) * 160 / 256;
    constexpr std::size_t GROWTHS = (CEILING_BYTES - 44 * 1448 + 2 * 1448 - 1) / (2 * 1448);
    Equal(talk.Arrive(0, 40).find_first_not_of('!'), 16 + GROWTHS);
    const std::string answers = talk.Arrive(40, 1500);
    const std::string grows = Repeated(400, "!");
    const std::size_t at = answers.find(grows);
    Require(at != std::string::npos && answers.find(grows, at + grows.size()) == std::string::npos,
            "a window has arrived, the buffer follows what was read in that time, and the window grows to it");
    const std::string last = answers.substr(answers.size() - 1000);
    const std::size_t from = last.find_first_not_of('!');
    Require(last.find("!!", from) == std::string::npos && last.find("..", from) == std::string::npos,
            "then every second one");
}

/** Linux's tcp_data_queue_ofo: by four of them, then what they take of the buffer stands against it. */
TEST(the_window_grows_with_segments_behind_a_gap_too)
{
    Talk talk({.adaptive_delayed_acks = false, .compressed_acks = 0});
    Equal(talk.Arrive(1, 41), Repeated(40, "!"));
    Equal(talk.Arrive(0), "!");
    // Of the six growths four came behind the gap and one with the segment that filled it.
    Equal(talk.Arrive(41, 60).substr(0, 6), "!.!.!.");
}

TEST(the_delay_of_an_ack_follows_a_slow_pace_and_a_pause_brings_quick_ones)
{
    Talk talk({.window_growth_acks = false});
    talk.NoteHandshake(60 * MS);
    talk.Arrive(0, 20);
    talk.Wait(100 * MS);
    Equal(talk.Arrive(20), ".");
    Equal(talk.Wait(29 * MS), "");
    Equal(talk.Arrive(21), "!", "as the second");
    Equal(talk.Wait(29 * MS), "");
    Equal(talk.Arrive(22), ".");
    Equal(talk.Wait(100 * MS), "@");
    // 40 ms, then half of it and the 30 ms since the segment before, twice.
    Near(talk.delayed_ms, (40.0 / 2 + 30) / 2 + 30, 1e-6);
    talk.Wait(SECOND);
    Equal(talk.Arrive(23, 45).find_first_not_of('!'), 16);
}

/** As Linux's tcp_delack_timer_handler. */
TEST(each_lone_segment_doubles_the_delay_up_to_a_round_trip)
{
    for (const bool is_long : {true, false})
    {
        Talk talk({.window_growth_acks = false});
        talk.NoteHandshake(is_long ? 300 * MS : 100 * MS);
        talk.Arrive(0, 20);
        for (uint64_t seqno = 20; seqno < 24; ++seqno)
        {
            talk.Wait(250 * MS);
            talk.Arrive(seqno, seqno + 1, {}, 0);
        }
        Equal(talk.delayed_ms, is_long ? 160 : 100, "of the third");
    }
}

// ---- gaps and duplicates --------------------------------------------------------------------------------

/** Segment 1500 is missing; twenty come behind it, a quarter of a millisecond apart, and then it. */
TEST(acks_of_a_gap_are_compressed_from_the_fourth_on)
{
    for (const int64_t nr : {44, 3})
    {
        Talk talk({.compressed_acks = nr});
        talk.NoteHandshake(60 * MS);
        talk.Arrive(0, 1500);
        talk.Wait(100 * MS);
        const std::string gap = talk.Arrive(1501, 1521, {}, MS / 4);
        // The window grows by the first one, whose ACK does not count; 1.1 ms hold five segments.
        Equal(gap, "!!!!" + (nr == 44 ? Repeated(3, ".....@") + "." : Repeated(4, "...!")));
        if (nr == 44)
        {
            Equal(talk.ack, "1500 1501-1520");
            Equal(talk.Arrive(1500, 1501, {}, MS / 4), "!");
        }
    }
}

TEST(blocks_stand_in_the_order_of_rfc_2018)
{
    Talk talk(LINUX);
    for (const uint64_t seqno : {1, 3, 5, 7, 9})
    {
        talk.Arrive(seqno);
    }
    Equal(talk.ack, "0 9-10 7-8 5-6 3-4", "the newest first, as many as fit");
    talk.Arrive(4);
    Equal(talk.ack, "0 3-6 9-10 7-8", "two joined");
    talk.Arrive(0);
    Equal(talk.ack, "2 3-6 9-10 7-8", "the first gap filled");
    talk.Arrive(6);
    Equal(talk.ack, "2 3-8 9-10", "joined again");
}

TEST(a_duplicate_is_reported_first_and_once_but_not_by_ns3)
{
    for (const bool is_linux : {true, false})
    {
        Talk talk(is_linux ? LINUX : NS3);
        talk.Arrive(0, 20);
        talk.Wait(100 * MS);
        std::string answers = talk.Arrive(5);
        Equal(talk.ack, is_linux ? "20 5-6" : "20");
        answers += talk.Arrive(20, 40);
        Require(!is_linux || answers == Repeated(16, "!") + ".!.!.", "sixteen at once again");
        talk.Wait(100 * MS);
        for (const uint64_t seqno : {41, 43, 45, 47, 43})
        {
            talk.Arrive(seqno);
        }
        // RFC 2883: the block it lies in follows.
        Equal(talk.ack, is_linux ? "40 43-44 43-44 47-48 45-46" : "40 47-48 45-46 43-44 41-42");
        talk.Arrive(49);
        Require(!is_linux || talk.ack == "40 49-50 43-44 47-48 45-46", "once");
    }
}

// ---- marks ----------------------------------------------------------------------------------------------

namespace
{

Talk
WithEcn(bool is_linux)
{
    // Without the growth of windows, which is answered at once too.
    return Talk({.d_sack = is_linux, .quick_acks = is_linux, .ecn = true, .window_growth_acks = false});
}

} // namespace

TEST(linux_echoes_a_mark_at_once_until_the_sender_has_reduced)
{
    Talk talk = WithEcn(true);
    talk.Arrive(0, 20, PLAIN);
    Equal(talk.Arrive(20, 24, PLAIN), ".!.!");
    Equal(talk.Arrive(24, MARKED), "E");
    Equal(talk.Arrive(25, 29, PLAIN), "E.E.", "two quick ACKs, then every second segment");
    Equal(talk.Arrive(29, REDUCED), "!");
    Equal(talk.Arrive(30, 34, PLAIN), ".!.!");
    Equal(talk.Arrive(34, BOTH), "E");
    Equal(talk.Arrive(35, REDUCED), "!");
    Equal(talk.Arrive(35, MARKED), "!", "a duplicate's mark is not taken");
    Equal(talk.Arrive(37, PLAIN), "!", "beyond a gap");
    Equal(talk.Arrive(36, MARKED), "E", "a late original's is");
}

TEST(linux_answers_what_is_not_capable_at_once)
{
    Talk talk = WithEcn(true);
    talk.Arrive(0, 20, PLAIN);
    Equal(talk.Arrive(20), "!", "a retransmission");
    Equal(talk.Arrive(21, 25, PLAIN), "!.!.");
}

TEST(ns3_echoes_with_its_next_ack_and_takes_marks_in_order_of_sequence)
{
    Talk talk = WithEcn(false);
    talk.Arrive(0, 21, PLAIN);
    Equal(talk.Arrive(21, MARKED), ".");
    Equal(talk.Arrive(22, REDUCED), "E", "before an answer");
    Equal(talk.Arrive(23, 25, PLAIN), ".E");
    Equal(talk.Arrive(25, 27, REDUCED), ".!");
    Equal(talk.Arrive(29, MARKED), "E", "newer");
    talk.Arrive(30, REDUCED);
    Equal(talk.Arrive(28, MARKED), "!", "older");
}

TEST(ns3_looks_at_no_marks_of_old_data_but_the_newest)
{
    Talk talk = WithEcn(false);
    talk.Arrive(0, 21, PLAIN);
    talk.Arrive(21, MARKED);
    Equal(talk.Arrive(5, REDUCED) + talk.Arrive(6, REDUCED), "!!", "late originals, answered without the echo");
    Equal(talk.Arrive(22, 24, PLAIN), ".E");
    Equal(talk.Arrive(23, PLAIN), "E");
    Equal(talk.Arrive(23, REDUCED), "!");
}
