// SPDX-License-Identifier: GPL-2.0-only
//
// Random loss behind the bottleneck: one decision per packet, or per sk_buff, in the order of departure, from the
// link's stream, such as "link.loss".
#ifndef BBRGYM_WORLD_LOSS_HPP
#define BBRGYM_WORLD_LOSS_HPP

#include "random.hpp"
#include "scenario.hpp"

namespace bbrgym
{

/** Probability that a chain of two states is in the bad one `ticks` after it was in the given state. */
inline double
BadAfter(const GilbertElliott& chain, bool was_bad, uint64_t ticks)
{
    const double leaving = chain.good_to_bad + chain.bad_to_good;
    if (leaving == 0)
    {
        return was_bad;
    }
    double memory = 1; // (1 - leaving)^ticks, by squares: products round alike on every machine
    for (double power = 1 - leaving; ticks > 0; ticks >>= 1, power *= power)
    {
        memory *= (ticks & 1) != 0 ? power : 1;
    }
    const double bad = chain.good_to_bad / leaving;
    return bad + (was_bad - bad) * memory;
}

class LossModel
{
  public:
    /** A tick of the clock TIME is `packet_ns`. */
    LossModel(const Loss& loss, double packet_ns, uint64_t run_seed, const std::string& link = "link")
        : m_loss(loss),
          m_packet_ns(packet_ns),
          m_random(run_seed, link + ".loss")
    {
        const auto* bernoulli = std::get_if<Bernoulli>(&loss);
        m_may_lose = bernoulli == nullptr || bernoulli->rate > 0;
    }

    /** Changes the rate of Bernoulli loss. */
    void SetRate(double rate)
    {
        m_loss = Bernoulli{rate};
        m_may_lose = rate > 0;
    }

    bool MayLose() const { return m_may_lose; }
    /** Call for each packet or sk_buff, in order of time. */
    bool IsLost(int64_t now_ns) { return m_may_lose && Draw(now_ns); }

  private:
    [[gnu::noinline]] bool Draw(int64_t now_ns)
    {
        if (const auto* bernoulli = std::get_if<Bernoulli>(&m_loss))
        {
            return m_random.Chance(bernoulli->rate);
        }
        const auto& chain = std::get<GilbertElliott>(m_loss);
        if (chain.clock == GilbertElliott::Clock::TIME)
        {
            const auto tick = static_cast<uint64_t>(static_cast<double>(now_ns) / m_packet_ns);
            m_is_bad = m_random.Chance(BadAfter(chain, m_is_bad, tick - m_tick));
            m_tick = tick;
            return IsLostIn(chain);
        }
        const bool lost = IsLostIn(chain);
        if (m_random.Chance(m_is_bad ? chain.bad_to_good : chain.good_to_bad))
        {
            m_is_bad = !m_is_bad;
        }
        return lost;
    }

    bool IsLostIn(const GilbertElliott& chain) { return m_random.Chance(m_is_bad ? chain.loss_bad : chain.loss_good); }

    Loss m_loss;
    double m_packet_ns;
    Random m_random;
    bool m_may_lose;
    uint64_t m_tick = 0;
    bool m_is_bad = false;
};

} // namespace bbrgym

#endif
