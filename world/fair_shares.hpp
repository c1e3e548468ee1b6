// SPDX-License-Identifier: GPL-2.0-only
//
// Max-min fair shares of flows that cross several links: nobody's can grow without taking from one who has no more
// (Bertsekas and Gallager, Data Networks, 6.5.2).
#ifndef BBRGYM_WORLD_FAIR_SHARES_HPP
#define BBRGYM_WORLD_FAIR_SHARES_HPP

#include "scenario.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace bbrgym
{

/** The payload that each flow's share has come to, which is another whenever a flow starts or stops or a link changes.
 */
class FairShares
{
  public:
    /** Begins at 0 with no active flow; keeps its memory. */
    void Reset(const Scenario& scenario);

    /** Whether there is need of it: data of some flow cross several links. */
    bool IsOn() const { return m_is_on; }

    /** Shares of the active flows, [flows], 0 of others, where links have so much. Valid until the next call. */
    template <class CapacityOf, class IsActive>
    const std::vector<double>& Of(CapacityOf&& capacity_of, IsActive&& is_active)
    {
        for (std::size_t link = 0; link < m_left.size(); ++link)
        {
            m_left[link] = capacity_of(link);
        }
        for (std::size_t flow = 0; flow < m_shares.size(); ++flow)
        {
            m_shares[flow] = is_active(flow) ? UNKNOWN : 0;
        }
        Fill();
        return m_shares;
    }

    /** Counts the time until now, to which the links could have carried so many bytes each. */
    template <class CapacityBytesOf> void Accrue(CapacityBytesOf&& capacity_bytes_of)
    {
        const auto since = [&](std::size_t link) {
            const double before = m_capacity_bytes[link];
            return (m_capacity_bytes[link] = capacity_bytes_of(link)) - before;
        };
        Of(since, [this](std::size_t flow) { return m_active[flow]; });
        for (std::size_t flow = 0; flow < m_bytes.size(); ++flow)
        {
            m_bytes[flow] += m_shares[flow] * m_payload_ratio;
        }
    }

    void SetActive(std::size_t flow, bool is_active) { m_active[flow] = is_active; }

    /** Payload until the last Accrue. */
    double Bytes(std::size_t flow) const { return m_bytes[flow]; }

    /** Of a full packet: payload / IP bytes. */
    double PayloadRatio() const { return m_payload_ratio; }

  private:
    static constexpr double UNKNOWN = -1;

    void Fill();

    bool m_is_on = false;
    double m_payload_ratio = 0;
    std::vector<std::vector<uint32_t>> m_paths; ///< of the flows
    std::vector<bool> m_active;
    std::vector<double> m_bytes;
    std::vector<double> m_capacity_bytes; ///< of the links, at the last Accrue
    std::vector<double> m_shares;
    std::vector<double> m_left;
    std::vector<uint32_t> m_unknown; ///< flows of each link whose share is not known yet
};

} // namespace bbrgym

#endif
