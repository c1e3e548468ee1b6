# SPDX-License-Identifier: GPL-2.0-only
"""The engine of ``world=linux``: the kernel's own sockets, in real time."""

from __future__ import annotations

import json
from typing import Any

import bbrgym._linux as _linux
from bbrgym.errors import ConfigError
from bbrgym.tunables import KERNEL_STAND_INS
from bbrgym.worlds.errors import LateRunFailure
from bbrgym.worlds.layout import Flags, Table
from bbrgym.worlds.specs import MAX_LATE_SHARE


class LinuxEngine(_linux.Vector):
    """A run on the kernel's sockets; see `bbrgym.worlds.engine.Engine`.

    Time is the machine's: it starts with the first advance and goes on between two of them. An interval begins where
    the one before it ended; it is longer than asked for if the caller took longer than that.

    Args:
        num_worlds: 1.
        threads: not used.
        timeout_s: longest wall time of each second of an advance.
        timestamps: whether the sockets use TCP's timestamps. Default: no.
        user_namespace: whether to act without privileges, even as root. Default: no.
        max_late_share: the share of packets written more than 1 ms late above which a run is refused at its end.
            1 accepts every run. Default: `MAX_LATE_SHARE`.
        policy: BPF object with a policy that sets the tunables of the tuned flows (docs/training.md). Default: none.
    """

    def __init__(
        self,
        num_worlds: int,
        threads: int,
        timeout_s: float,
        *,
        timestamps: bool = False,
        user_namespace: bool = False,
        max_late_share: float = MAX_LATE_SHARE,
        policy: str = "",
    ) -> None:
        if not 0 <= max_late_share <= 1:
            raise ConfigError(f"options: max_late_share is {max_late_share}, expected 0 to 1")
        super().__init__(num_worlds, threads, timeout_s)
        self._hosts: dict[str, Any] = {"timestamps": timestamps, "user_namespace": user_namespace, "policy": policy}
        self._max_late_share = max_late_share
        self._done: Any = None

    def lay_out(
        self, flow_capacity: int, tunables: Table, flow_stats: Table, link_stats: Table, now_s: Table, done: Flags
    ) -> None:
        """Use these arrays from now on."""
        super().lay_out(flow_capacity, tunables, flow_stats, link_stats, now_s, done)
        self.choose(**self._hosts)
        self._done = done

    def reset(self, index: int, scenario_json: str | None, seed: int) -> None:
        """Begin a run; the kernel's own control runs in place of a model of it."""
        super().reset(index, None if scenario_json is None else _with_stand_ins(scenario_json), seed)

    def advance(self, durations_s: Table) -> None:
        """Run for so long, at most to the scenario's end.

        Raises:
            LateRunFailure: the run is over and too many of its packets were late.
        """
        super().advance(durations_s)
        if self._done[0]:
            self._check_lateness()

    def _check_lateness(self) -> None:
        late = self.lateness()
        if late["share_above_1ms"] > self._max_late_share:
            raise LateRunFailure(
                f"{late['share_above_1ms']:.2%} of {late['packets']} packets were written more than 1 ms late "
                f"(p50 {late['p50_us']:.1f} us, p99 {late['p99_us']:.0f} us, p99.9 {late['p999_us']:.0f} us), at most "
                f"{self._max_late_share:.2%} are allowed (options.max_late_share): this machine is too busy for it"
            )


def _with_stand_ins(scenario_json: str) -> str:
    scenario = json.loads(scenario_json)
    for flow in scenario["flows"]:
        flow["cc"] = KERNEL_STAND_INS.get(flow["cc"], flow["cc"])
    return json.dumps(scenario)
