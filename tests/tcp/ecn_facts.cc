// SPDX-License-Identifier: GPL-2.0-only
//
// The echo of marks at the receiver. usage: ecn_facts EXPERIMENT; prints `name value` lines.
#include "receiver.hpp"

#include <array>
#include <cstdio>
#include <string>

using namespace bbrgym;

namespace
{

constexpr EcnBits PLAIN{.ect = true};
constexpr EcnBits MARKED{.ect = true, .ce = true};
constexpr EcnBits REDUCED{.ect = true, .cwr = true};
constexpr EcnBits BOTH{.ect = true, .ce = true, .cwr = true};

SocketFacts
FactsWithEcn(bool is_linux)
{
    SocketFacts facts;
    facts.ecn = true;
    facts.quick_acks = is_linux;
    facts.d_sack = is_linux;
    facts.window_growth_acks = false; // which answer at once, too
    return facts;
}

/** `!`: answered at once, with an echo `E`; `.`: not yet. */
class Talk
{
  public:
    explicit Talk(const SocketFacts& facts) { m_receiver.Reset(facts, 1448); }

    std::string Take(uint64_t serial, EcnBits bits)
    {
        if (!m_receiver.OnSegment(serial, 0, bits).answer_at_once)
        {
            return ".";
        }
        std::array<SerialRange, MAX_SACK_BLOCKS> blocks;
        m_receiver.Acknowledge(blocks);
        return m_receiver.Echo() ? "E" : "!";
    }

    std::string TakeAll(uint64_t begin, uint64_t end, EcnBits bits = PLAIN)
    {
        std::string answers;
        for (uint64_t serial = begin; serial < end; ++serial)
        {
            answers += Take(serial, bits);
        }
        return answers;
    }

  private:
    TcpReceiver m_receiver;
};

void
Show(const char* name, const std::string& value)
{
    std::printf("%s %s\n", name, value.c_str());
}

void
Linux()
{
    Talk talk(FactsWithEcn(true));
    talk.TakeAll(0, 20);
    Show("plain", talk.TakeAll(20, 24));
    Show("marked", talk.Take(24, MARKED));
    Show("after", talk.TakeAll(25, 29));
    Show("reduced", talk.Take(29, REDUCED));
    Show("then", talk.TakeAll(30, 34));
    Show("both", talk.Take(34, BOTH));
    Show("reduced_again", talk.Take(35, REDUCED));
    Show("duplicate", talk.Take(35, MARKED));
    Show("beyond_a_gap", talk.Take(37, PLAIN));
    Show("late_original", talk.Take(36, MARKED));
    Talk other(FactsWithEcn(true));
    other.TakeAll(0, 20);
    Show("retransmission", other.Take(20, {}));
    Show("after_it", other.TakeAll(21, 25));
}

void
Ns3()
{
    Talk talk(FactsWithEcn(false));
    talk.TakeAll(0, 21);
    Show("marked", talk.Take(21, MARKED));
    Show("reduced_before_an_answer", talk.Take(22, REDUCED));
    Show("after", talk.TakeAll(23, 25));
    Show("reduced", talk.TakeAll(25, 27, REDUCED));
    Show("newer", talk.Take(29, MARKED));
    talk.Take(30, REDUCED);
    Show("older", talk.Take(28, MARKED));
}

void
Without()
{
    Talk talk(SocketFacts{.window_growth_acks = false});
    talk.TakeAll(0, 20);
    Show("marked", talk.TakeAll(20, 24, MARKED));
}

} // namespace

int
main(int argc, char** argv)
{
    const std::string experiment = argc > 1 ? argv[1] : "";
    if (experiment == "linux")
    {
        Linux();
    }
    else if (experiment == "ns3")
    {
        Ns3();
    }
    else
    {
        Without();
    }
    return 0;
}
