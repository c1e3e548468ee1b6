// SPDX-License-Identifier: GPL-2.0-only
//
// A writer, a send buffer and a receive window under random traffic, against what must hold of them at all times.
//
// usage: buffer_laws SEED STEPS

#include "program.hpp"
#include "receive_window.hpp"
#include "send_buffer.hpp"

#include <algorithm>
#include <cstdint>
#include <random>

using namespace bbrgym;

namespace
{

class Draw
{
  public:
    explicit Draw(uint64_t seed) : m_engine(seed) {}
    uint64_t Below(uint64_t n) { return m_engine() % n; }

  private:
    std::mt19937_64 m_engine;
};

SocketFacts
DrawFacts(Draw& draw)
{
    SocketFacts facts;
    const int64_t sizes[] = {SIZE_ample, SIZE_auto, static_cast<int64_t>(1 + draw.Below(10'000'000))};
    facts.send_buffer_bytes = sizes[draw.Below(3)];
    facts.receive_buffer_bytes = draw.Below(2) == 0 ? SIZE_auto : static_cast<int64_t>(1 + draw.Below(10'000'000));
    facts.send_head_bytes = static_cast<int64_t>(draw.Below(2000));
    facts.window_growth_acks = draw.Below(2) == 0;
    facts.window_share = draw.Below(2) == 0 ? window_share_choice::half : window_share_choice::scaling_ratio;
    return facts;
}

/** Data is written, sent, SACKed and acknowledged in random portions. */
void
SendBufferLaws(Draw& draw, uint64_t steps)
{
    const auto mss_bytes = static_cast<uint32_t>(64 + draw.Below(9000));
    const SocketFacts facts = DrawFacts(draw);
    SendBuffer buffer;
    const uint64_t ample_pkts = 1 + draw.Below(100'000);
    buffer.Reset(facts, mss_bytes, draw.Below(2) == 0, ample_pkts);
    SendBufferLoad load{.cwnd_pkts = 10, .burst_pkts = static_cast<uint32_t>(1 + draw.Below(45))};
    for (uint64_t step = 0; step < steps; ++step)
    {
        const uint64_t limit_bytes = buffer.LimitBytes();
        const bool was_empty = load.unsent_pkts + load.out_pkts == 0;
        const uint64_t wanted = 1 + draw.Below(100'000);
        const uint64_t taken = buffer.Accept(wanted, load);
        load.unsent_pkts += taken;
        Require(taken <= wanted, "no more is taken than wanted");
        Require(taken > 0 || !was_empty, "an empty buffer takes a segment");
        const uint64_t payload_bytes = (load.unsent_pkts + load.out_pkts) * mss_bytes;
        Require(taken <= 1 || payload_bytes <= limit_bytes, "the payload fits");
        const uint64_t head_bytes = static_cast<uint64_t>(facts.send_head_bytes); // of an sk_buff that is not full
        Require(taken <= 1 || buffer.IsAmple() || buffer.HeldBytes(load) <= limit_bytes + head_bytes,
                "what is taken fits, but for a head");
        Require(!buffer.IsAmple() || load.unsent_pkts + load.out_pkts <= ample_pkts,
                "an ample buffer has its limit, too");
        Require(buffer.HasWaitingWriter() == (taken < wanted), "a writer waits if and only if not all was taken");

        const auto sent = static_cast<uint32_t>(draw.Below(load.unsent_pkts + 1));
        load.unsent_pkts -= sent;
        load.out_pkts += sent;
        load.sacked_pkts += static_cast<uint32_t>(draw.Below(load.out_pkts - load.sacked_pkts + 1));
        load.in_recovery = load.sacked_pkts > 0;
        load.cwnd_pkts = static_cast<uint32_t>(1 + draw.Below(5000));
        load.in_flight_pkts = load.out_pkts - load.sacked_pkts;
        const auto acked = static_cast<uint32_t>(draw.Below(load.out_pkts + 1));
        load.out_pkts -= acked;
        load.sacked_pkts = std::min(load.sacked_pkts, load.out_pkts);
        load.in_flight_pkts = load.out_pkts - load.sacked_pkts;

        const bool waited = buffer.HasWaitingWriter();
        const bool woken = buffer.WakesWriter(load);
        Require(!woken || waited, "only a writer that waits is woken");
        Require(buffer.LimitBytes() >= limit_bytes, "a buffer never shrinks");
        Require(facts.send_buffer_bytes == SIZE_auto || buffer.LimitBytes() == limit_bytes,
                "only an automatic buffer grows");
        Require(facts.send_buffer_bytes != SIZE_auto || buffer.LimitBytes() <= WMEM_MAX_BYTES, "up to tcp_wmem");
        if (buffer.IsAmple())
        {
            Require(!waited || woken == (load.unsent_pkts + load.out_pkts < ample_pkts),
                    "or, if it is ample, a segment");
            continue;
        }
        const bool is_third_free = 3 * buffer.HeldBytes(load) <= 2 * buffer.LimitBytes() + 2;
        Require(!waited || woken == is_third_free, "a writer is woken when a third is free");
    }
}

/** Segments arrive within the window, in order or behind gaps. */
void
ReceiveWindowLaws(Draw& draw, uint64_t steps)
{
    const auto mss_bytes = static_cast<uint32_t>(64 + draw.Below(9000));
    const SocketFacts facts = DrawFacts(draw);
    ReceiveWindow window;
    window.Reset(facts, mss_bytes);
    uint64_t most_bytes = 65'535; // by the window scale of the handshake
    while (most_bytes < window.ScaledBytes() && most_bytes < 65'535ULL << 14)
    {
        most_bytes *= 2;
    }
    uint64_t next = 0;
    uint64_t edge = window.Announce(0, 0);
    int64_t now_ns = 0;
    for (uint64_t step = 0; step < steps; ++step)
    {
        const uint64_t buffer_bytes = window.BufferBytes();
        Require(edge > next, "at least the next segment fits");
        now_ns += static_cast<int64_t>(draw.Below(50'000'000));
        const uint64_t arrived = draw.Below(edge - next + 1);
        for (uint64_t i = 0; i < arrived; ++i)
        {
            window.Grow(1);
        }
        next += arrived;
        window.NoteRead(next, now_ns);
        const auto beyond = edge > next + 1 ? static_cast<uint32_t>(draw.Below(edge - next - 1)) : 0;
        const uint64_t announced = window.Announce(next, beyond);
        Require(announced >= edge, "the right edge never moves back");
        Require(window.AnnouncedBytes(next) <= std::max<uint64_t>(window.BufferBytes(), mss_bytes) + 16384 ||
                    announced == edge,
                "a window is not a larger than the buffer");
        Require(window.AnnouncedBytes(next) <= most_bytes, "the header can say it");
        Require(window.BufferBytes() >= buffer_bytes && window.BufferBytes() <= window.MaxBufferBytes(),
                "a buffer grows up to its largest size");
        edge = announced;
    }
}

} // namespace

int
main(int argc, char** argv)
{
    const uint64_t steps = Number(2, argc, argv);
    Draw draw(Number(1, argc, argv));
    for (int run = 0; run < 200; ++run)
    {
        SendBufferLaws(draw, steps);
        ReceiveWindowLaws(draw, steps);
    }
    return 0;
}
