// SPDX-License-Identifier: GPL-2.0-only
#include "kernel_sender.hpp"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace bbrgym
{

namespace
{

// Options of IPPROTO_TCP, and the structures that they fill, as the kernel's user API has them: the C library's
// headers are older than the kernel.
constexpr int OPTION_INFO = 11;
constexpr int OPTION_CONGESTION = 13;
constexpr int OPTION_CC_INFO = 26;

/** Fields that the kernel does not know stay 0: each kernel adds some at the end. */
struct KernelTcpInfo
{
    uint8_t state, ca_state, retransmits, probes, backoff, options;
    uint8_t window_scales;
    uint8_t flags; ///< bit 0: the last rate sample was application-limited
    uint32_t rto, ato, snd_mss, rcv_mss;
    uint32_t unacked, sacked, lost, retrans, fackets;
    uint32_t last_data_sent, last_ack_sent, last_data_recv, last_ack_recv;
    uint32_t pmtu, rcv_ssthresh, rtt_us, rttvar_us, snd_ssthresh, snd_cwnd, advmss, reordering;
    uint32_t rcv_rtt, rcv_space, total_retrans;
    uint64_t pacing_rate, max_pacing_rate, bytes_acked, bytes_received;
    uint32_t segs_out, segs_in, notsent_bytes, min_rtt_us, data_segs_in, data_segs_out;
    uint64_t delivery_rate, busy_us, rwnd_limited_us, sndbuf_limited_us;
    uint32_t delivered, delivered_ce;
    uint64_t bytes_sent, bytes_retrans;
    uint32_t dsack_dups, reord_seen, rcv_ooopack, snd_wnd, rcv_wnd, rehash;
    uint16_t total_rto, total_rto_recoveries; ///< from Linux 6.7 on
    uint32_t total_rto_time;
};
static_assert(offsetof(KernelTcpInfo, pacing_rate) == 104 && offsetof(KernelTcpInfo, delivered) == 192 &&
              offsetof(KernelTcpInfo, total_rto) == 240);

struct KernelBbrInfo
{
    uint32_t bw_low, bw_high; ///< bytes a second
    uint32_t min_rtt_us;
    uint32_t pacing_gain, cwnd_gain; ///< in 256ths
};

constexpr uint8_t FIRST_CONNECTED_STATE = 1; // TCP_ESTABLISHED
constexpr uint8_t STATE_SYN_SENT = 2;
constexpr uint32_t NO_MIN_RTT = UINT32_MAX;
constexpr double NS_PER_US = 1e3;

template <class Answer>
bool
Ask(int socket, int option, Answer& answer)
{
    socklen_t bytes = sizeof(answer);
    return getsockopt(socket, IPPROTO_TCP, option, &answer, &bytes) == 0;
}

std::string_view
ControllerOf(int socket, char (&name)[16])
{
    return Ask(socket, OPTION_CONGESTION, name) ? std::string_view(name, strnlen(name, sizeof(name))) : "";
}

/** The phase that BBR's gains show, see cc_phase. */
double
PhaseOf(const KernelBbrInfo& bbr)
{
    constexpr uint32_t ONE = 256;
    constexpr uint32_t STARTUP_GAIN = 2 * ONE; // 2/ln 2 is above, a probe's 5/4 below
    constexpr uint32_t DRAIN_GAIN = ONE / 2;   // ln 2 / 2 is below, a probe's 3/4 above
    if (bbr.pacing_gain >= STARTUP_GAIN)
    {
        return 0;
    }
    if (bbr.pacing_gain <= DRAIN_GAIN)
    {
        return 1;
    }
    if (bbr.cwnd_gain <= ONE)
    {
        return 2; // ProbeRTT: both gains are 1
    }
    return bbr.pacing_gain > ONE ? 8 : bbr.pacing_gain < ONE ? 9 : 10;
}

} // namespace

SenderState
ReadKernelSender(int socket)
{
    KernelTcpInfo info{};
    if (!Ask(socket, OPTION_INFO, info) || info.state < FIRST_CONNECTED_STATE || info.state == STATE_SYN_SENT ||
        info.delivered == 0)
    {
        return {};
    }
    SenderState state;
    state.cwnd_pkts = info.snd_cwnd;
    state.in_flight_pkts = static_cast<double>(int64_t{info.unacked} - info.sacked - info.lost + info.retrans);
    state.srtt_us = info.rtt_us;
    state.min_rtt_us = info.min_rtt_us == NO_MIN_RTT ? 0 : info.min_rtt_us;
    state.phase = info.snd_cwnd < info.snd_ssthresh ? 16 : 17;
    state.app_limited = (info.flags & 1) != 0;
    state.marked_lost_pkts = info.total_retrans + (info.lost > info.retrans ? info.lost - info.retrans : 0);
    state.delivered_pkts = info.delivered - 1; // the SYN counts there
    state.rto_count = info.total_rto;
    state.busy_ns = static_cast<int64_t>(info.busy_us * NS_PER_US);
    state.rwnd_limited_ns = static_cast<int64_t>(info.rwnd_limited_us * NS_PER_US);
    state.sndbuf_limited_ns = static_cast<int64_t>(info.sndbuf_limited_us * NS_PER_US);

    char name[16] = {};
    KernelBbrInfo bbr{};
    if (ControllerOf(socket, name) == "bbr" && Ask(socket, OPTION_CC_INFO, bbr))
    {
        state.pacing_Bps = static_cast<double>(info.pacing_rate);
        state.bw_Bps = static_cast<double>(uint64_t{bbr.bw_high} << 32 | bbr.bw_low);
        state.min_rtt_us = bbr.min_rtt_us == NO_MIN_RTT ? 0 : bbr.min_rtt_us;
        state.phase = PhaseOf(bbr);
    }
    return state;
}

} // namespace bbrgym
