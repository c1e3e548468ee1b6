// SPDX-License-Identifier: GPL-2.0-only
#include "fair_shares.hpp"

#include <algorithm>

namespace bbrgym
{

void
FairShares::Reset(const Scenario& scenario)
{
    const std::size_t links = scenario.Links();
    const std::size_t flows = scenario.flows.size();
    m_is_on = scenario.HasPaths();
    if (!m_is_on)
    {
        return;
    }
    m_payload_ratio = static_cast<double>(scenario.mss_bytes) / (scenario.mss_bytes + HEADER_BYTES);
    m_paths.resize(flows);
    for (std::size_t flow = 0; flow < flows; ++flow)
    {
        m_paths[flow] = scenario.flows[flow].there;
    }
    m_active.assign(flows, false);
    m_bytes.assign(flows, 0);
    m_shares.assign(flows, 0);
    m_capacity_bytes.assign(links, 0);
    m_left.assign(links, 0);
    m_unknown.assign(links, 0);
}

/** Progressive filling: the link that has the least for each of its flows settles theirs, which the others then lack.
 */
void
FairShares::Fill()
{
    std::ranges::fill(m_unknown, 0);
    for (std::size_t flow = 0; flow < m_shares.size(); ++flow)
    {
        for (const uint32_t link : m_paths[flow])
        {
            m_unknown[link] += m_shares[flow] == UNKNOWN;
        }
    }
    for (;;)
    {
        std::size_t tightest = m_left.size();
        double least = 0;
        for (std::size_t link = 0; link < m_left.size(); ++link)
        {
            const double each = m_left[link] / std::max<uint32_t>(m_unknown[link], 1);
            if (m_unknown[link] > 0 && (tightest == m_left.size() || each < least))
            {
                tightest = link;
                least = each;
            }
        }
        if (tightest == m_left.size())
        {
            return;
        }
        for (std::size_t flow = 0; flow < m_shares.size(); ++flow)
        {
            if (m_shares[flow] == UNKNOWN && std::ranges::count(m_paths[flow], tightest) > 0)
            {
                m_shares[flow] = least;
                for (const uint32_t link : m_paths[flow])
                {
                    m_left[link] = std::max(m_left[link] - least, 0.0);
                    --m_unknown[link];
                }
            }
        }
    }
}

} // namespace bbrgym
