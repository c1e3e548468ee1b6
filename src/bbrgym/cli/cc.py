# SPDX-License-Identifier: GPL-2.0-only
"""``bbrgym cc``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from bbrgym.cli.plain_command import Words
from bbrgym.cli.terminal import print_results
from bbrgym.conformance.setup import Sender
from bbrgym.conformance.verdicts import OUTCOMES, draft_verdicts
from bbrgym.errors import ConfigError, nearest
from bbrgym.plugins import check_controller, headers, load_controller, new_controller
from bbrgym.tunables import VARIANTS
from bbrgym.worlds import FAST_WORLD, make_world

DESCRIPTION = """\
A congestion control in one C file is a variant of every command that runs here: in the twin and in ns-3, its tunables
like ours.

examples:
  bbrgym cc new mine.c        an AIMD to change; its comments say how. cc headers prints the folder that they name
  bbrgym cc check mine.c      under random events, on paths with and without loss, and by the draft's cases
  bbrgym list mine.c
  bbrgym evaluate scenario=wan_mix world=twin 'variants=[bbr,cubic,mine.c]' draws=50
  bbrgym train variant=mine.c agent=ppo scenario=wan_mix
"""

WORDS = Words("new|check|headers [FILE.c]", 1, 2)

_DURATION_S = 20.0
_PATHS = {  # rate in Mbit/s, round trip in ms, loss rate
    "10 Mbit/s, 40 ms": (10.0, 40.0, 0.0),
    "10 Mbit/s, 40 ms, 1 % loss": (10.0, 40.0, 0.01),
    "100 Mbit/s, 5 ms": (100.0, 5.0, 0.0),
    "1 Mbit/s, 300 ms": (1.0, 300.0, 0.0),
}


def run(words: Sequence[str], given: Sequence[str]) -> None:  # noqa: ARG001
    """Do what the action says."""
    action, *files = words
    if action not in _ACTIONS:
        raise ConfigError(f"ACTION: is {action!r}; {nearest(action, _ACTIONS)}")
    expected, lines = _ACTIONS[action]
    expected.check(f"cc {action}", files)
    print_results(*lines(*files))


def _checks(file: str) -> Iterator[str]:
    """Yield a line for each check that the file passes.

    Raises:
        ConfigError: it breaks a law.
        WorldError: a run of it breaks.
    """
    yield f"passed: {check_controller(file)}"
    name = load_controller(file)
    yield f"tunables: {', '.join(VARIANTS[name].preset) or 'none'}"
    for path, (rate_mbps, rtt_ms, loss) in _PATHS.items():
        link = {"rate_mbps": rate_mbps, "queue": {"kind": "droptail", "size_bdp": 1.0}}
        if loss:
            link["loss"] = {"kind": "bernoulli", "rate": loss}
        flow = {"cc": name, "rtt_ms": rtt_ms, "name": "flow"}
        scenario = {"name": "check", "link": link, "flows": [flow], "duration_s": _DURATION_S, "warmup_s": 5.0}
        with make_world(FAST_WORLD, scenario) as world:
            world.advance(_DURATION_S)
            row = dict(zip(world.flow_summary_fields, world.summary()[0][0], strict=True))
        yield (
            f"{path}: {row['goodput_mbps']:.2f} Mbit/s, RTT {row['rtt_mean_ms']:.1f} ms, "
            f"{100 * row['retransmit_rate']:.2f} % retransmitted"
        )
    if VARIANTS[name].algorithm == "plugin-bbr":  # its phases are BBR v1's, if it calls those functions
        verdicts = list(draft_verdicts(Sender("bbr", runs=name)))
        counts = Counter(one.outcome for one in verdicts)
        failed = dict.fromkeys(one.case.name for one in verdicts if one.outcome == "failed")
        named = f": {', '.join(failed)}" if failed else ""
        shown = ", ".join(f"{counts[outcome]} {outcome}" for outcome in OUTCOMES)
        yield f"the draft's cases, as BBR v1: {shown}{named}"


_ACTIONS: Mapping[str, tuple[Words, Callable[..., Iterable[str]]]] = {
    "new": (Words("FILE.c"), lambda file: [f"written: {new_controller(file)}"]),
    "check": (Words("FILE.c"), _checks),
    "headers": (Words("", 0, 0), lambda: [str(headers())]),
}
