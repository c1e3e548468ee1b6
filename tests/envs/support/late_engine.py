# SPDX-License-Identifier: GPL-2.0-only
"""A world that says at the end of every run that it was late, as a busy machine's kernel does: the twin otherwise."""

import contextlib

import bbrgym._twin as _twin

from bbrgym.worlds import register_world
from bbrgym.worlds.errors import LateRunFailure
from bbrgym.worlds.specs import _SPECS


class LateEngine(_twin.Vector):
    def lay_out(self, flow_capacity, tunables, flow_stats, link_stats, now_s, done):
        super().lay_out(flow_capacity, tunables, flow_stats, link_stats, now_s, done)
        self._done = done

    def advance(self, durations_s):
        super().advance(durations_s)
        if self._done[0]:
            raise LateRunFailure("packets were late")


@contextlib.contextmanager
def late_world():
    """Register the world ``late`` for as long as the context is open."""
    before = dict(_SPECS)
    register_world("late", "late_engine.LateEngine", "always late", is_real_time=True)
    try:
        yield
    finally:
        _SPECS.clear()
        _SPECS.update(before)
