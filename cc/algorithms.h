/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The one table of algorithms: a row is an algorithm, and what it does on each event of cc.h.
 *
 * X(ID, name, family, init, on_ack, reduce, on_loss_state, on_rto, on_restart, on_undo,
 *   on_packet_lost, on_packets_lost, on_probe_repair)
 *   ID      the number is CC_ALGORITHM_<ID>, in the order of the rows
 *   family  LOSS: the stack reduces its window to `reduce`'s threshold, and paces nothing. BBR1, BBR3: it paces, and
 *           decides its window in recovery too; its state is that of bbr.h, of bbr3.h
 *   events  calls with the arguments of the function of cc.h that has the event; CC_NONE: nothing
 */
#ifndef BBRGYM_CC_ALGORITHMS_H
#define BBRGYM_CC_ALGORITHMS_H

#define CC_NONE ((void)0)

/* clang-format off */
#define CC_ALGORITHMS(X)                                                                                              \
    X(BBR, "bbr", BBR1, bbr_init(state, params, start), bbr_on_ack(state, params, sample), CC_NONE,                   \
      bbr_on_loss_state(state, params, old_state, new_state), bbr_on_rto(state, params, saves, total_lost_pkts),                         \
      bbr_on_restart(state, params, now_us, app_limited), bbr_on_undo(state, params), CC_NONE, CC_NONE, CC_NONE)      \
    X(CUBIC, "cubic", LOSS, cubic_init(state, start), cubic_on_ack(state, params, sample), cubic_reduce(state),       \
      CC_NONE, cubic_on_rto(state), cubic_on_restart(state, now_us), cc_undo(state), CC_NONE, CC_NONE, CC_NONE)       \
    X(RENO, "reno", LOSS, CC_NONE, reno_on_ack(state, params, sample), reno_reduce(state, params, in_flight_pkts),    \
      CC_NONE, CC_NONE, CC_NONE, cc_undo(state), CC_NONE, CC_NONE, CC_NONE)                                           \
    X(BIC, "bic", LOSS, bic_init(state), bic_on_ack(state, params, sample), bic_reduce(state),                        \
      CC_NONE, bic_on_rto(state), CC_NONE, cc_undo(state), CC_NONE, CC_NONE, CC_NONE)                                 \
    X(VEGAS, "vegas", LOSS, vegas_init(state), vegas_on_ack(state, params, sample),                                   \
      reno_halve(state, state->cwnd_pkts), vegas_on_loss_state(state, new_state),                                     \
      vegas_on_loss_state(state, CC_CA_LOSS), vegas_on_restart(state), cc_undo(state), CC_NONE, CC_NONE, CC_NONE)     \
    X(WESTWOOD, "westwood", LOSS, westwood_init(state, start), westwood_on_ack(state, params, sample),                \
      reno_halve(state, state->cwnd_pkts), westwood_on_loss_state(state, old_state, new_state),                       \
      westwood_on_rto(state, reduces), CC_NONE, cc_undo(state), CC_NONE, CC_NONE, CC_NONE)                            \
    X(BBR3, "bbr3", BBR3, bbr3_init(state, params, start), bbr3_on_ack(state, params, sample), CC_NONE,               \
      bbr3_on_loss_state(state, old_state, new_state), bbr3_on_rto(state, is_new_episode, cwnd_pkts),                 \
      bbr3_on_restart(state, params, now_us, app_limited), bbr3_on_undo(state),                                       \
      bbr3_on_packet_lost(state, params, lost), bbr3_on_packets_lost(state, params, last, count),                     \
      bbr3_on_probe_repair(state, params, now_us, delivered_pkts, is_app_limited))                                    \
    X(BBR2, "bbr2", BBR3, bbr3_init(state, params, start), bbr3_on_ack(state, params, sample), CC_NONE,               \
      bbr3_on_loss_state(state, old_state, new_state), bbr3_on_rto(state, is_new_episode, cwnd_pkts),                 \
      bbr3_on_restart(state, params, now_us, app_limited), bbr3_on_undo(state),                                       \
      bbr3_on_packet_lost(state, params, lost), bbr3_on_packets_lost(state, params, last, count),                     \
      bbr3_on_probe_repair(state, params, now_us, delivered_pkts, is_app_limited))                                    \
    X(DIRECT, "direct", BBR1, direct_init(state, params, start), direct_on_ack(state, params, sample), CC_NONE,       \
      CC_NONE, CC_NONE, CC_NONE, CC_NONE, CC_NONE, CC_NONE, CC_NONE)                                                  \
    X(CUBIC_SCALED, "cubic-scaled", LOSS, scaled_cubic_init(state, params, start),                                    \
      scaled_cubic_on_ack(state, params, sample), scaled_cubic_reduce(state, params), CC_NONE,                        \
      scaled_cubic_on_rto(state, params), scaled_cubic_on_restart(state, params, now_us), cc_undo(state),             \
      CC_NONE, CC_NONE, CC_NONE)                                                                                      \
    X(BBR_SCALED, "bbr-scaled", BBR1, scaled_bbr_init(state, params, start),                                          \
      scaled_bbr_on_ack(state, params, sample), CC_NONE, bbr_on_loss_state(state, params, old_state, new_state),      \
      scaled_bbr_on_rto(state, params, saves, total_lost_pkts),                                                       \
      scaled_bbr_on_restart(state, params, now_us, app_limited), bbr_on_undo(state, params),                          \
      CC_NONE, CC_NONE, CC_NONE)                                                                                      \
    X(PLUGIN, "plugin", LOSS, CC_TELL(init, start), CC_TELL(on_ack, sample), CC_TELL(reduce, in_flight_pkts),         \
      CC_TELL(on_loss_state, old_state, new_state), CC_TELL(on_rto, saves, total_lost_pkts),                          \
      CC_TELL(on_restart, now_us, app_limited), cc_undo(state), CC_TELL(on_packet_lost, lost), CC_NONE, CC_NONE)      \
    X(PLUGIN_BBR, "plugin", BBR1, cc_init_plugin_bbr(state, params, start), CC_TELL(on_ack, sample), CC_NONE,         \
      CC_TELL(on_loss_state, old_state, new_state), CC_TELL(on_rto, saves, total_lost_pkts),                          \
      CC_TELL(on_restart, now_us, app_limited), CC_TELL(on_undo), CC_TELL(on_packet_lost, lost), CC_NONE, CC_NONE)
/* clang-format on */

#endif
