// SPDX-License-Identifier: GPL-2.0-only
//
// The receiver against a std::set, with segments that arrive in random order, ever further ahead, and more than
// once: what has arrived, what is readable, and the SACK blocks of RFC 2018 and 2883.
//
// usage: receiver_laws SEED CONNECTIONS

#include "program.hpp"
#include "receiver.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <set>
#include <span>
#include <vector>

namespace
{

using bbrgym::SeqnoRange;

/** Everything that arrived beyond the first gap, and the stretches of it by the time they were last touched. */
class Reference
{
  public:
    uint64_t next = 0;
    std::set<uint64_t> beyond;
    std::vector<SeqnoRange> stretches; ///< latest first
    bool more_than_fit = false;        ///< since nothing was missing: the receiver has forgotten some

    bool Has(uint64_t seqno) const { return seqno < next || beyond.contains(seqno); }

    /** Returns how many segments became readable. */
    uint64_t OnSegment(uint64_t seqno)
    {
        const uint64_t before = next;
        if (seqno >= next)
        {
            beyond.insert(seqno);
            while (beyond.erase(next) > 0)
            {
                ++next;
            }
            Touch(seqno);
        }
        return next - before;
    }

  private:
    void Touch(uint64_t seqno)
    {
        std::erase_if(stretches, [this](const SeqnoRange& s) { return s.begin < next; });
        if (seqno >= next)
        {
            uint64_t begin = seqno;
            uint64_t end = seqno + 1;
            while (beyond.contains(begin - 1))
            {
                --begin;
            }
            while (beyond.contains(end))
            {
                ++end;
            }
            std::erase_if(stretches, [=](const SeqnoRange& s) { return begin <= s.begin && s.end <= end; });
            stretches.insert(stretches.begin(), {begin, end});
        }
        more_than_fit = stretches.size() > bbrgym::MAX_SACK_BLOCKS || (more_than_fit && !stretches.empty());
    }
};

void
CheckBlocks(std::span<const SeqnoRange> blocks, const Reference& truth, uint64_t newest)
{
    for (std::size_t i = 0; i < blocks.size(); ++i)
    {
        Require(truth.next < blocks[i].begin && blocks[i].begin < blocks[i].end, "a block lies beyond the gap");
        for (uint64_t seqno = blocks[i].begin; seqno < blocks[i].end; ++seqno)
        {
            Require(truth.beyond.contains(seqno), "a block names what has arrived");
        }
        for (std::size_t j = 0; j < i; ++j)
        {
            Require(blocks[j].end < blocks[i].begin || blocks[i].end < blocks[j].begin, "blocks stand apart");
        }
    }
    if (newest > truth.next)
    {
        Require(!blocks.empty() && blocks[0].begin <= newest && newest < blocks[0].end, "the newest is in the first");
    }
    if (!truth.more_than_fit)
    {
        const std::size_t fit = std::min(blocks.size(), truth.stretches.size());
        Require(truth.stretches.size() - fit <= 1, "as many blocks as fit");
        Require(std::equal(blocks.begin(), blocks.end(), truth.stretches.begin()), "a block is the whole stretch");
    }
}

void
Live(bbrgym::TcpReceiver& receiver, std::mt19937_64& random)
{
    receiver.Reset({}, 1448);
    Reference truth;
    const uint64_t reach_bits = 2 + random() % 13;
    const uint64_t one_in = 1 + random() % 8; // is not the next in order
    constexpr uint64_t ARRIVALS = 1000;
    for (uint64_t i = 0; i < ARRIVALS; ++i)
    {
        uint64_t seqno = truth.next;
        if (random() % one_in == 0)
        {
            const uint64_t reach = uint64_t{1} << (1 + i * reach_bits / ARRIVALS);
            const uint64_t back = std::min<uint64_t>(truth.next, 3);
            seqno = truth.next - back + random() % (back + 1 + reach);
        }
        const bool is_duplicate = truth.Has(seqno);
        const bool gap_before = !truth.beyond.empty();
        const auto arrival = receiver.OnSegment(seqno, static_cast<int64_t>(i));
        Require(arrival.readable_pkts == truth.OnSegment(seqno), "what is readable is what is in order");
        Require(receiver.Next() == truth.next, "the first gap is known");
        const bool is_gap = is_duplicate || gap_before || !truth.beyond.empty();
        Require(arrival.answer_at_once || !is_gap ||
                    receiver.DelayedAckDeadlineNs() <= static_cast<int64_t>(i) + 1'100'000,
                "duplicates and gaps are answered at once, or in the time of compression");
        Require(arrival.answer_at_once || receiver.DelayedAckDeadlineNs() != bbrgym::NEVER_NS,
                "what is not answered at once is answered later");

        std::array<SeqnoRange, bbrgym::MAX_SACK_BLOCKS> blocks;
        std::span<const SeqnoRange> sack(blocks.data(), receiver.Acknowledge(blocks));
        if (is_duplicate)
        {
            Require(!sack.empty() && sack[0] == SeqnoRange{seqno, seqno + 1}, "a duplicate is reported first");
            sack = sack.subspan(1);
        }
        CheckBlocks(sack, truth, seqno);
    }
}

} // namespace

int
main(int argc, char** argv)
{
    std::mt19937_64 random(Number(1, argc, argv));
    const uint64_t connections = Number(2, argc, argv);
    bbrgym::TcpReceiver used;
    for (uint64_t i = 0; i < connections; ++i)
    {
        bbrgym::TcpReceiver fresh;
        Live(i % 2 == 0 ? fresh : used, random);
    }
    return 0;
}
