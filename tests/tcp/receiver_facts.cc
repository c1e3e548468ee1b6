// SPDX-License-Identifier: GPL-2.0-only
//
// What the receiver answers, and when, to the arrivals of the named experiment. Prints "name value" lines;
// test_receiver.py says what they should be.
//
// usage: receiver_facts EXPERIMENT

#include "program.hpp"
#include "receiver.hpp"

#include <array>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <string>

namespace
{

using bbrgym::SocketFacts;

constexpr SocketFacts LINUX{.window_growth_acks = false, .adaptive_delayed_acks = false, .compressed_acks = 0};
constexpr SocketFacts NS3{.d_sack = false,
                          .quick_acks = false,
                          .window_growth_acks = false,
                          .adaptive_delayed_acks = false,
                          .compressed_acks = 0};
constexpr int64_t MS = 1'000'000;
constexpr int64_t SECOND = 1000 * MS;

class Talk
{
  public:
    explicit Talk(const SocketFacts& facts) { m_receiver.Reset(facts, 1448); }

    /** Arrivals a millisecond apart; what is due in between is answered. */
    void Take(uint64_t begin, uint64_t end, int64_t apart_ns = MS)
    {
        for (uint64_t serial = begin; serial < end; ++serial)
        {
            Wait(apart_ns);
            if (m_receiver.OnSegment(serial, m_now_ns).answer_at_once)
            {
                Answer("!");
            }
            else
            {
                m_answers += ".";
            }
        }
    }

    void Wait(int64_t time_ns)
    {
        m_now_ns += time_ns;
        if (m_receiver.DelayedAckDeadlineNs() <= m_now_ns)
        {
            std::printf("delayed_ms %.9g\n", double(m_receiver.DelayedAckDeadlineNs() - m_last_ns) / MS);
            m_receiver.OnTimer(m_receiver.DelayedAckDeadlineNs());
            Answer("@");
        }
        m_last_ns = m_now_ns;
    }

    /** `!`: answered at once, `.`: not, `@`: answered later. */
    void PrintAnswers(const char* name)
    {
        std::printf("%s %s\n", name, m_answers.c_str());
        m_answers.clear();
    }

    /** Of the answers up to now: how many came at once before the first that did not. */
    void PrintQuick(const char* name)
    {
        std::printf("%s %zu\n", name, m_answers.find_first_not_of('!'));
        m_answers.clear();
    }

    void NoteHandshake(int64_t rtt_ns)
    {
        m_receiver.NoteSynAck(m_now_ns);
        m_receiver.NoteEstablished(m_now_ns += rtt_ns);
        m_last_ns = m_now_ns;
    }

    void PrintLast(const char* name) const { std::printf("%s %s\n", name, m_last.c_str()); }

  private:
    void Answer(const char* how)
    {
        std::array<bbrgym::SerialRange, bbrgym::MAX_SACK_BLOCKS> blocks;
        const std::size_t count = m_receiver.Acknowledge(blocks);
        m_answers += how;
        m_last = std::to_string(m_receiver.Next());
        for (std::size_t i = 0; i < count; ++i)
        {
            m_last += " " + std::to_string(blocks[i].begin) + "-" + std::to_string(blocks[i].end);
        }
    }

    bbrgym::TcpReceiver m_receiver;
    int64_t m_now_ns = 0;
    int64_t m_last_ns = 0;
    std::string m_answers;
    std::string m_last;
};

void
InOrder(const SocketFacts& facts)
{
    Talk talk(facts);
    talk.Take(0, 16);
    talk.PrintAnswers("first_16");
    talk.Take(16, 21);
    talk.PrintAnswers("next_5");
    talk.Wait(100 * MS);
    talk.PrintAnswers("after_a_pause");
    talk.PrintLast("ack");
}

void
Linux()
{
    InOrder(LINUX);
}

void
Ns3()
{
    InOrder(NS3);
}

/** Segment 20 comes last. */
void
Gap()
{
    Talk talk(LINUX);
    talk.Take(0, 20);
    talk.Wait(100 * MS);
    talk.PrintAnswers("before");
    talk.Take(21, 25);
    talk.PrintAnswers("beyond_the_gap");
    talk.PrintLast("ack_of_the_gap");
    talk.Take(20, 21);
    talk.PrintAnswers("the_gap");
    talk.PrintLast("ack_of_all");
    talk.Take(25, 29);
    talk.PrintAnswers("after");
}

/** Every second segment is missing. */
void
Blocks()
{
    Talk talk(LINUX);
    for (const uint64_t serial : {1, 3, 5, 7, 9})
    {
        talk.Take(serial, serial + 1);
    }
    talk.PrintLast("five_stretches");
    talk.Take(4, 5);
    talk.PrintLast("two_joined");
    talk.Take(0, 1);
    talk.PrintLast("first_gap_filled");
    talk.Take(6, 7);
    talk.PrintLast("joined_again");
}

void
Duplicates(const SocketFacts& facts)
{
    Talk talk(facts);
    talk.Take(0, 20);
    talk.Wait(100 * MS);
    talk.PrintAnswers("before");
    talk.Take(5, 6);
    talk.PrintLast("of_the_past");
    talk.Take(20, 40);
    talk.PrintAnswers("of_the_past_and_after");
    talk.Wait(100 * MS);
    for (const uint64_t serial : {41, 43, 45, 47, 43})
    {
        talk.Take(serial, serial + 1);
    }
    talk.PrintLast("beyond_the_gap");
    talk.Take(49, 50);
    talk.PrintLast("the_next");
}

void
LinuxDuplicates()
{
    Duplicates(LINUX);
}

void
Ns3Duplicates()
{
    Duplicates(NS3);
}

/** A window's growth up to the first buffer, which takes less than a round trip of 44 segments. */
void
WindowGrowth(const SocketFacts& facts)
{
    Talk talk(facts);
    talk.Take(0, 40);
    talk.PrintQuick("first");
    talk.Take(40, 1500);
    talk.PrintAnswers("answers");
}

/** Segment 0 is missing, and comes after forty. */
void
WindowGrowthBehindAGap()
{
    Talk talk({.adaptive_delayed_acks = false, .compressed_acks = 0});
    talk.Take(1, 41);
    talk.Take(0, 1);
    talk.PrintAnswers("gap");
    talk.Take(41, 60);
    talk.PrintAnswers("answers");
}

/** After the quick ACKs three segments, each by itself. */
void
LoneSegments(int64_t rtt_ns)
{
    Talk talk({.window_growth_acks = false});
    talk.NoteHandshake(rtt_ns);
    talk.Take(0, 20);
    for (uint64_t serial = 20; serial < 24; ++serial)
    {
        talk.Wait(250 * MS);
        talk.Take(serial, serial + 1, 0);
    }
}

void
AdaptiveDelay()
{
    Talk talk({.window_growth_acks = false});
    talk.NoteHandshake(60 * MS);
    talk.Take(0, 20);
    talk.Wait(100 * MS);
    talk.PrintAnswers("before");
    talk.Take(20, 21);
    talk.Wait(29 * MS);
    talk.Take(21, 22); // answered as the second
    talk.Wait(29 * MS);
    talk.Take(22, 23);
    talk.Wait(100 * MS);
    talk.PrintAnswers("at_a_slow_pace");
    talk.Wait(SECOND);
    talk.Take(23, 45);
    talk.PrintQuick("quick_after_a_pause");
}

/** Segment 1500 is missing; twenty come behind it, a quarter of a millisecond apart, and then it. */
void
Compression(int64_t nr)
{
    Talk talk({.compressed_acks = nr});
    talk.NoteHandshake(60 * MS);
    talk.Take(0, 1500);
    talk.Wait(100 * MS);
    talk.PrintQuick("before");
    talk.Take(1501, 1521, MS / 4);
    talk.PrintAnswers("gap");
    talk.PrintLast("ack");
    talk.Take(1500, 1501, MS / 4);
    talk.PrintAnswers("filled");
}

constexpr Experiment EXPERIMENTS[] = {
    {"window_growth", [] { WindowGrowth(SocketFacts{}); }},
    {"window_growth_behind_a_gap", WindowGrowthBehindAGap},
    {"window_growth_before_4_20", [] { WindowGrowth({.window_share = bbrgym::window_share_choice::half, .initial_window_segments = 20, .initial_receive_buffer_bytes = 376'960}); }},
    {"adaptive_delay", AdaptiveDelay},
    {"lone_segments", [] { LoneSegments(300 * MS); }},
    {"lone_segments_on_a_shorter_path", [] { LoneSegments(100 * MS); }},
    {"compression", [] { Compression(44); }},
    {"compression_of_three", [] { Compression(3); }},
    {"linux", Linux},
    {"ns3", Ns3},
    {"gap", Gap},
    {"blocks", Blocks},
    {"linux_duplicates", LinuxDuplicates},
    {"ns3_duplicates", Ns3Duplicates},
};

} // namespace

int
main(int argc, char** argv)
{
    return RunExperiment(EXPERIMENTS, argc, argv);
}
