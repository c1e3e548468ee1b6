// SPDX-License-Identifier: GPL-2.0-only
//
// F-RTO with SACK (RFC 5682, 3.1; Linux tcp_process_loss): whether a timeout was spurious.
//
//   timeout -> the head is retransmitted -> the first ACK advances: new data leaves before further retransmissions
//                                        -> new data overtakes the old: the loss was real
//
// That an original arrived, which proves the timeout spurious, is the sender's to see.
#ifndef BBRGYM_TCP_FRTO_HPP
#define BBRGYM_TCP_FRTO_HPP

#include "scoreboard.hpp"

#include <cstdint>

namespace bbrgym
{

class Frto
{
  public:
    /** A timeout. */
    void Begin(bool may_be_spurious)
    {
        m_is_on = may_be_spurious;
        m_asked_ns = NEVER_NS;
    }
    void End() { Begin(false); }
    bool IsOn() const { return m_is_on; }

    /** Whether new data is to leave before retransmissions, as the test. */
    bool SendsNewData() const { return m_asked_ns != NEVER_NS; }
    void StopNewData() { m_asked_ns = NEVER_NS; }

    /** What an ACK tells of the test. */
    struct Ack
    {
        bool una_advanced;
        bool ends_episode; ///< everything that was out at the timeout is acknowledged
        bool data_sacked;
        bool is_duplicate; ///< it acknowledges nothing and reports no duplicate
        bool has_sent_new; ///< since the timeout
    };

    /** An ACK that is not a proof. True: it asks for new data. */
    bool OnAck(const Ack& ack, int64_t now_ns)
    {
        if (m_is_on && ack.has_sent_new)
        {
            m_is_on = !ack.data_sacked && !ack.is_duplicate; // new data overtook the old: the loss was real
        }
        else if (m_is_on && ack.una_advanced && !ack.ends_episode)
        {
            m_asked_ns = now_ns;
            return true;
        }
        return false;
    }

    /**
     * The sender looks for what to send. New data that the window or pacing holds back is not a test
     * (tcp_xmit_recovery). And when pacing's timer is over, Linux sends what counts as lost before anything new
     * (tcp_tsq_write).
     */
    void BeforeSending(bool is_held_back, bool has_sent_new, bool is_paced, int64_t now_ns)
    {
        if (is_held_back && !has_sent_new)
        {
            End();
        }
        else if (is_paced && now_ns > m_asked_ns)
        {
            StopNewData();
        }
    }

  private:
    int64_t m_asked_ns = NEVER_NS; ///< when an ACK asked for new data; NEVER_NS: none did
    bool m_is_on = false;
};

} // namespace bbrgym

#endif
