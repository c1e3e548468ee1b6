# SPDX-License-Identifier: GPL-2.0-only
def record_last_hop(
    scenario_json: str, seed: int, duration_s: float, packet_bytes: int, timeout_s: float
) -> list[int]: ...
