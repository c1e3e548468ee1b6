// SPDX-License-Identifier: GPL-2.0-only
//
// Drives the scoreboard over a FIFO network that drops packets, retransmissions too, and holds it to what the
// network knows: every drop is marked lost exactly once, nothing else is, every segment is delivered once, and
// the counters equal a recount of the segments. What it remembers of a flight is what was true when a segment left.
//
// usage: scoreboard_laws SEED OPERATIONS

#include "counters.hpp"
#include "program.hpp"
#include "scoreboard.hpp"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <random>
#include <set>
#include <utility>
#include <vector>

namespace
{

constexpr int64_t ONE_WAY_NS = 5'000'000;

struct Packet
{
    uint64_t seqno;
    int64_t arrives_ns;
};

/**
 * Receives in order of arrival and answers with a cumulative ACK and up to three SACK blocks: every packet, or,
 * as delayed acknowledgement has it, every other one as long as nothing is missing.
 */
class Receiver
{
  public:
    /** True if the packet is answered at once. */
    bool AnswersAtOnce(uint64_t seqno)
    {
        m_held = m_beyond.empty() && seqno == m_next && !m_held;
        return !m_held;
    }

    std::vector<bbrgym::SeqnoRange> OnSegment(uint64_t seqno)
    {
        if (seqno >= m_next)
        {
            m_beyond.insert(seqno);
        }
        while (!m_beyond.empty() && *m_beyond.begin() == m_next)
        {
            m_beyond.erase(m_beyond.begin());
            ++m_next;
        }
        std::vector<bbrgym::SeqnoRange> ranges;
        for (const uint64_t s : m_beyond)
        {
            if (!ranges.empty() && ranges.back().end == s)
            {
                ++ranges.back().end;
            }
            else
            {
                ranges.push_back({s, s + 1});
            }
        }
        // RFC 2018: the block that holds the newest packet first, then others.
        std::stable_partition(ranges.begin(), ranges.end(),
                              [seqno](const bbrgym::SeqnoRange& r) { return r.begin <= seqno && seqno < r.end; });
        ranges.resize(std::min<std::size_t>(ranges.size(), 3));
        return ranges;
    }

    uint64_t Next() const { return m_next; }

  private:
    uint64_t m_next = 0;
    bool m_held = false;
    std::set<uint64_t> m_beyond;
};

/** Nothing is retransmitted that was not lost; unlike in a connection, no timeout is undone. */
void
CheckRetransmissions(const bbrgym::Scoreboard& board)
{
    for (uint64_t seqno = board.Una(); seqno < board.Next(); ++seqno)
    {
        Require(!board.At(seqno).retransmitting || board.At(seqno).lost, "only what was lost is retransmitted");
    }
}

/** The flights of all segments that have left, as they were then. */
using TxStates = std::set<std::pair<uint64_t, uint32_t>>;

/** The losses told since the last call are those that LostTotal counted, in order, of segments that had left. */
void
CheckLosses(bbrgym::Scoreboard& board, const TxStates& flights, uint64_t& told)
{
    for (const bbrgym::LostSegment& lost : board.NewlyLost())
    {
        Require(lost.total_pkts == ++told, "each loss is told once, in order");
        Require(lost.at_send.lost_pkts < lost.total_pkts, "a segment is lost after it left");
        Require(flights.contains({lost.at_send.lost_pkts, lost.at_send.in_flight_pkts}), "its flight is one that was");
    }
    board.ClearNewlyLost();
    Require(told == board.LostTotal(), "every loss is told");
}

} // namespace

int
main(int argc, char** argv)
{
    std::mt19937_64 random(Number(1, argc, argv));
    const uint64_t operations = Number(2, argc, argv);
    const double drop = std::uniform_real_distribution<double>(0.0, 0.5)(random);
    const uint32_t window = 1 + static_cast<uint32_t>(random() % 200);
    std::bernoulli_distribution dropped(drop);

    bbrgym::Scoreboard board;
    board.KeepTxStates();
    TxStates flights;
    uint64_t told = 0;
    Receiver receiver;
    std::deque<Packet> network;
    uint64_t drops = 0;
    int64_t now_ns = 1;
    int64_t srtt_ns = 2 * ONE_WAY_NS;

    const auto transmit = [&](uint64_t seqno) {
        if (dropped(random))
        {
            ++drops;
        }
        else
        {
            network.push_back({seqno, now_ns + 2 * ONE_WAY_NS});
        }
    };

    for (uint64_t op = 0; op < operations || board.InFlight() > 0 || !board.NothingToRetransmit(); ++op)
    {
        const bool draining = op >= operations;
        while (board.InFlight() < window)
        {
            if (const auto lost = board.NextLost())
            {
                board.Retransmitted(*lost, now_ns);
                flights.emplace(board.LostTotal(), board.InFlight());
                transmit(*lost);
            }
            else if (!draining)
            {
                transmit(board.Sent(false, false, now_ns));
                flights.emplace(board.LostTotal(), board.InFlight());
            }
            else
            {
                break;
            }
            now_ns += 1 + static_cast<int64_t>(random() % 1000);
        }
        if (network.empty())
        {
            // Nothing is under way: only the timer can help, and everything believed in flight was dropped.
            board.DetectLosses(false, srtt_ns, now_ns);
            if (board.NothingToRetransmit() && board.InFlight() > 0)
            {
                now_ns += 200'000'000;
                board.MarkTimedOut(now_ns);
            }
        }
        else
        {
            const Packet packet = network.front();
            network.pop_front();
            now_ns = std::max(now_ns, packet.arrives_ns);
            const bool answer = receiver.AnswersAtOnce(packet.seqno) || network.empty();
            const auto blocks = receiver.OnSegment(packet.seqno);
            if (!answer)
            {
                continue;
            }
            const auto outcome = board.Acknowledge(receiver.Next(), blocks, now_ns);
            board.DetectLosses(random() % 2 == 0, srtt_ns, now_ns);
            const auto rate = board.SampleRate(now_ns);
            Require(outcome.rtt_ns < 0 || outcome.rtt_ns >= 2 * ONE_WAY_NS, "no RTT below the path's");
            Require(rate.interval_ns < 0 || rate.interval_ns >= 2 * ONE_WAY_NS,
                    "no sample over less than a round trip");
            Require(rate.sample_pkts <= static_cast<int64_t>(board.Rate().Delivered()), "no sample above the total");
            Require(rate.sample_pkts < 0 || flights.contains({rate.at_send.lost_pkts, rate.at_send.in_flight_pkts}),
                    "a sample's flight is one that was");
        }
        CheckLosses(board, flights, told);
        Require(board.ReorderingDeadlineNs() >= now_ns, "the reordering timer lies ahead");
        Require(board.LostTotal() <= drops, "nothing is called lost that was not dropped");
        if (op % 64 == 0)
        {
            CheckCounters(board);
            CheckRetransmissions(board);
        }
    }
    CheckCounters(board);
    Require(receiver.Next() == board.Next(), "all data arrived");
    Require(board.Rate().Delivered() == board.Next(), "each packet is delivered once");
    Require(board.LostTotal() == drops, "every drop is marked lost exactly once");
    return 0;
}
