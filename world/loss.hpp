// SPDX-License-Identifier: GPL-2.0-only
//
// Random loss behind the bottleneck: one decision per packet, in the order of departure, from the stream
// "link.loss".
#ifndef BBRGYM_WORLD_LOSS_HPP
#define BBRGYM_WORLD_LOSS_HPP

#include "random.hpp"
#include "scenario.hpp"

namespace bbrgym
{

class LossModel
{
  public:
    LossModel(const Loss& loss, uint64_t run_seed)
        : m_loss(loss),
          m_random(run_seed, "link.loss")
    {
    }

    /** Changes the rate of Bernoulli loss. */
    void SetRate(double rate) { m_loss = Bernoulli{rate}; }

    bool IsLost()
    {
        if (const auto* bernoulli = std::get_if<Bernoulli>(&m_loss))
        {
            return bernoulli->rate > 0 && m_random.Chance(bernoulli->rate);
        }
        const auto& states = std::get<GilbertElliott>(m_loss);
        const bool lost = m_random.Chance(m_is_bad ? states.loss_bad : states.loss_good);
        if (m_random.Chance(m_is_bad ? states.bad_to_good : states.good_to_bad))
        {
            m_is_bad = !m_is_bad;
        }
        return lost;
    }

  private:
    Loss m_loss;
    Random m_random;
    bool m_is_bad = false;
};

} // namespace bbrgym

#endif
