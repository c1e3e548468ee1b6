# SPDX-License-Identifier: GPL-2.0-only
"""An engine that misbehaves as its scenario's name says: a real worker process, no real network."""

import json
import os
import sys
import time

import numpy as np

from bbrgym.worlds.errors import EngineFailure, LateRunFailure


def odd_scenario(deed):
    return {
        "name": deed,
        "duration_s": 10.0,
        "link": {"rate_mbps": 1.0, "queue": {"size_packets": 10}},
        "flows": [{"name": "flow", "rtt_ms": 10.0}],
    }


class OddEngine:
    """Shows in the first columns of its rows: advances begun; simulated time and seed; in summaries the process."""

    def __init__(self, num_worlds, threads, timeout_s, deed=None):
        assert (num_worlds, threads) == (1, 1)
        self._option = deed
        self._timeout_s = timeout_s

    def lay_out(self, flow_capacity, tunables, flow_stats, link_stats, now_s, done):
        self._tunables, self._flow_stats, self._link_stats = tunables[0], flow_stats[0], link_stats[0]
        self._now_s, self._done = now_s, done

    def reset(self, index, scenario_json, seed):
        if scenario_json is not None:
            scenario = json.loads(scenario_json)
            self._deed = self._option or scenario["name"]
            self._duration_s = scenario["duration_s"]
            self._flows = len(scenario["flows"])
        self._tunables[:] = np.nan
        self._flow_stats[:] = np.nan
        self._flow_stats[: self._flows] = 0
        self._link_stats[:2] = 0, seed
        self._now_s[:], self._done[:] = 0, False
        if self._deed == "refuse":
            raise ValueError("flows[0].cc: not in this world")
        if self._deed == "fail":
            raise RuntimeError("out of routers")

    def advance(self, durations_s):
        self._flow_stats += 1
        if self._now_s[0] >= 1:
            self._misbehave()
        self._now_s[:] = min(self._now_s[0] + durations_s[0], self._duration_s)
        self._done[:] = self._now_s >= self._duration_s
        self._link_stats[0] = self._now_s[0]

    def _misbehave(self):
        if self._deed == "abort":
            for line in range(100):
                print(f"line {line}", file=sys.stderr)
            print('assert failed. cond="cwnd > 0"', file=sys.stderr, flush=True)
            os.abort()
        elif self._deed == "exit":
            os._exit(7)
        elif self._deed == "hang":
            time.sleep(3600)
        elif self._deed == "raise":
            raise RuntimeError("the model broke")
        elif self._deed == "give-up":
            raise EngineFailure("the other side has gone")
        elif self._deed == "late":
            raise LateRunFailure("packets were late")
        elif self._deed == "talk":
            os.write(1, b"x" * (1 << 20))

    def summary(self, index, flow_out, link_out):
        flow_out[:] = self._flow_stats[: self._flows, :1]
        link_out[:] = os.getpid()

    def close(self):
        pass
