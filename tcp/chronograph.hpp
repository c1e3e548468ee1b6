// SPDX-License-Identifier: GPL-2.0-only
//
// The time that a sender spent in each state, as Linux's tcp_info reports it (tcp_chrono_start, tcp_chrono_stop):
// busy_time is the time with data that is unsent or unacknowledged, rwnd_limited and sndbuf_limited are parts of it.
#ifndef BBRGYM_TCP_CHRONOGRAPH_HPP
#define BBRGYM_TCP_CHRONOGRAPH_HPP

#include <array>
#include <cstdint>

namespace bbrgym
{

enum class SendState : uint8_t
{
    IDLE,          ///< everything written is acknowledged
    BUSY,          ///< held by congestion window, pacing or application
    RWND_LIMITED,  ///< held by the receive window
    SNDBUF_LIMITED ///< everything is sent, and a writer waits for room in the send buffer
};

class Chronograph
{
  public:
    SendState State() const { return m_state; }

    void Change(SendState state, int64_t now_ns)
    {
        if (state != m_state)
        {
            m_total_ns[static_cast<std::size_t>(m_state)] += now_ns - m_since_ns;
            m_since_ns = now_ns;
            m_state = state;
        }
    }

    int64_t TotalNs(SendState state, int64_t now_ns) const
    {
        return m_total_ns[static_cast<std::size_t>(state)] + (state == m_state ? now_ns - m_since_ns : 0);
    }

  private:
    std::array<int64_t, 4> m_total_ns{};
    int64_t m_since_ns = 0;
    SendState m_state = SendState::IDLE;
};

} // namespace bbrgym

#endif
