// SPDX-License-Identifier: GPL-2.0-only
//
// Connections over paths that lose, stall and reorder at random, with every combination of the sender's features.
// Whatever happens: no timer lies in the past, the window is kept, pacing too, the books balance, and in the end
// everything written has arrived.
//
// usage: sender_laws SEED CONNECTIONS

#include "connection.hpp"
#include "counters.hpp"

#include <algorithm>
#include <memory>
#include <random>

namespace
{

/** A link that serialises; it may stand still, lose, and let a segment be overtaken. */
class RandomPath
{
  public:
    explicit RandomPath(uint64_t seed)
        : m_random(seed),
          m_loss(Uniform(0, 0.2) * (Uniform(0, 1) < 0.7)),
          m_late(Uniform(0, 0.02) * (Uniform(0, 1) < 0.5)),
          m_stall(Uniform(0, 0.002)),
          m_segment_ns(static_cast<int64_t>(Uniform(10'000, 2'000'000)))
    {}

    double Uniform(double low, double high) { return std::uniform_real_distribution<double>(low, high)(m_random); }
    uint64_t Below(uint64_t limit) { return m_random() % limit; }
    void Heal() { m_loss = m_late = m_stall = 0; }

    int64_t Arrival(int64_t arrives_ns)
    {
        if (Uniform(0, 1) < m_stall)
        {
            m_free_ns += static_cast<int64_t>(Uniform(0, 2) * double(SECOND));
        }
        arrives_ns = m_free_ns = std::max(arrives_ns, m_free_ns) + m_segment_ns;
        if (Uniform(0, 1) < m_loss)
        {
            return bbrgym::NEVER_NS;
        }
        return Uniform(0, 1) < m_late ? arrives_ns + static_cast<int64_t>(Uniform(0, 0.3) * double(SECOND))
                                      : arrives_ns;
    }

  private:
    std::mt19937_64 m_random;
    double m_loss;
    double m_late;
    double m_stall;
    int64_t m_segment_ns;
    int64_t m_free_ns = 0;
};

/** Every burst but a probe and the answer to a timeout keeps the distance that pacing asks for, or half of it. */
void
CheckPacing(const Connection& c, const Settings& settings)
{
    constexpr uint64_t MOST_BYTES = 65'536; // of a burst
    uint64_t too_close = 0;
    uint64_t burst_pkts = 0;
    for (std::size_t i = static_cast<std::size_t>(settings.facts.unpaced_segments); i < c.departures.size(); ++i)
    {
        const int64_t since_ns = c.departures[i].at_ns - c.departures[i - 1].at_ns;
        burst_pkts = since_ns == 0 ? burst_pkts + 1 : 1;
        const bool is_free = c.departures[i].kind == Departure::Kind::PROBE;
        if (settings.facts.gso_max_segs == 1)
        {
            const auto gap_ns =
                static_cast<int64_t>(uint64_t{settings.mss_bytes} * 1'000'000'000 / settings.pacing_Bps);
            too_close += !is_free && since_ns < (settings.facts.pacing_credit ? gap_ns / 2 : gap_ns);
        }
        else
        {
            const auto limit_pkts =
                std::min(MOST_BYTES / settings.mss_bytes, static_cast<uint64_t>(settings.facts.gso_max_segs));
            too_close += !is_free && burst_pkts > std::max<uint64_t>(limit_pkts, 2);
        }
    }
    Require(too_close <= c.sender.Totals().rto_count, "pacing is kept");
}

void
Live(uint64_t seed)
{
    const auto path = std::make_shared<RandomPath>(seed);
    Settings settings;
    settings.one_way_ns = static_cast<int64_t>(path->Uniform(100'000, 150'000'000));
    settings.initial_cwnd_pkts = 1 + static_cast<uint32_t>(path->Below(30));
    settings.pacing_Bps = static_cast<uint64_t>(path->Uniform(1e5, 1e8));
    settings.facts = {.tail_loss_probe = path->Below(2) == 0,
                      .undo = path->Below(2) == 0,
                      .pacing_credit = path->Below(2) == 0,
                      .gso_max_segs = path->Below(2) == 0 ? 1 : static_cast<int64_t>(1 + path->Below(60)),
                      .tso_by_rtt = path->Below(2) == 0,
                      .tso_deferral = static_cast<bbrgym::tso_deferral_choice>(path->Below(3))};

    Connection c(settings);
    c.arrival = [path](const Departure&, int64_t arrives_ns) { return path->Arrival(arrives_ns); };
    c.on_ack = [&](const cc_sample& sample) {
        const bbrgym::Scoreboard& board = c.sender.Board();
        CheckCounters(board);
        Require(board.Empty() == (c.sender.RtoDeadlineNs() == bbrgym::NEVER_NS), "the timer runs while data is out");
        Require(board.Empty() || c.sender.RtoDeadlineNs() <= c.now_ns + 120 * SECOND, "no timeout is beyond 120 s");
        Require(c.sender.LossState() >= CC_CA_RECOVERY || board.LostOut() == 0, "losses mean recovery");
        Require(c.sender.LossState() != CC_CA_OPEN || board.SackedOut() == 0, "gaps mean disorder");
        Require(sample.rtt_us < 0 || sample.rtt_us >= 2 * settings.one_way_ns / 1000, "no RTT is below the path's");
        Require(sample.sample_pkts <= static_cast<int64_t>(board.Rate().Delivered()), "no sample is above the total");
        Require(c.Cwnd() > 0, "there is a window");
    };
    for (int i = 0; i < 20; ++i)
    {
        c.Write(1 + path->Below(path->Below(4) == 0 ? 500 : 20));
        c.Run(c.now_ns + static_cast<int64_t>(path->Uniform(0, 1) * double(SECOND)));
    }
    path->Heal();
    c.Drain(3600 * SECOND);

    const bbrgym::SenderTotals& totals = c.sender.Totals();
    Require(c.sender.Board().Una() == c.Written(), "everything written has arrived");
    Require(c.sender.Board().Rate().DeliveredOnce() == c.Written(), "each segment is delivered once");
    Require(totals.sent_pkts == c.departures.size(), "every departure is counted");
    Require(totals.sent_pkts == c.Written() + totals.retransmitted_pkts, "what is sent is new or sent again");
    Require(settings.facts.tail_loss_probe || totals.probe_count == 0, "no probe where there are none");
    Require(settings.facts.undo || totals.undo_count == 0, "no undo where there is none");
    Require(totals.undo_count == static_cast<uint64_t>(c.sender.GetController().Undos()), "every undo is told");
    CheckPacing(c, settings);
}

} // namespace

int
main(int argc, char** argv)
{
    const uint64_t seed = Number(1, argc, argv);
    const uint64_t connections = Number(2, argc, argv);
    for (uint64_t i = 0; i < connections; ++i)
    {
        Live(seed * 1'000'003 + i);
    }
    return 0;
}
