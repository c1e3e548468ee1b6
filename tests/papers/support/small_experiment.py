# SPDX-License-Identifier: GPL-2.0-only
"""The fields of a small experiment."""

from typing import Any

import yaml

FIELDS: dict[str, Any] = yaml.safe_load("""
figure: figure 1
title: two flows
scenario:
  duration_s: 2.0
  warmup_s: 0.0
  link: {rate_mbps: 10.0, delay_ms: 1.0, queue: {size_bdp: 2.0}}
  flows: [{name: short, rtt_ms: 10.0}, {name: long, rtt_ms: 40.0}]
variants: {bbr: {}, small: {cc: bbr, set: {link.queue.size_bdp: 0.5}}}
sweep: {title: RTT (ms), at: [40, 80], set: {flows.1.rtt_ms: [40.0, 80.0]}}
seeds: 2
published: [{variant: bbr, metric: goodput_mbps, unit: Mbit/s, source: text, at: [40, 80], value: [9, 9]}]
claims:
- text: a small queue is short
  source: text
  less: {variant: small, metric: queue_delay_ms, at: 40}
  than: {variant: bbr, metric: queue_delay_ms, at: 40}
""")
