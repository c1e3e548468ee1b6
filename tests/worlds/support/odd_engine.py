# SPDX-License-Identifier: GPL-2.0-only
"""An engine that misbehaves as its scenario's name says: a real worker process, no real network."""

import json
import os
import sys
import time


def flow_fields():
    return [("calls", "count", "omniscient", "advances begun")]


def link_fields():
    return [("now_s", "s", "omniscient", "simulated time"), ("seed", "count", "omniscient", "the run's seed")]


def flow_summary_fields():
    return [("calls", "count", "omniscient", "advances begun")]


def link_summary_fields():
    return [("pid", "count", "omniscient", "the process")]


class Simulation:
    def __init__(self, scenario_json, seed, tunables, flow_stats, link_stats):
        scenario = json.loads(scenario_json)
        self._deed = scenario["name"]
        self._duration_s = scenario["duration_s"]
        self._flow_stats, self._link_stats = flow_stats, link_stats
        self.now_s = 0.0
        tunables[:] = float("nan")
        flow_stats[:] = 0
        link_stats[:] = 0, seed
        if self._deed == "refuse":
            raise ValueError("flows[0].cc: not in this world")
        if self._deed == "fail":
            raise RuntimeError("out of routers")

    @property
    def done(self):
        return self.now_s >= self._duration_s

    def advance(self, duration_s):
        self._flow_stats += 1
        if self.now_s >= 1:
            self._misbehave()
        self.now_s = min(self.now_s + duration_s, self._duration_s)
        self._link_stats[0] = self.now_s

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
        elif self._deed == "talk":
            os.write(1, b"x" * (1 << 20))

    def summary(self, flow_out, link_out):
        flow_out[:] = self._flow_stats
        link_out[:] = os.getpid()

    def close(self):
        pass
