# SPDX-License-Identifier: GPL-2.0-only
"""What a script sets on the machine: its shell commands, to facts of the stack (world/socket.def, cc/stack.def).

Scripts begin with defaults.sh, whose values are the defaults here; the file itself is not needed.
"""

import math
import re
import shlex
from dataclasses import dataclass, field

from verdicts import NotRunError, OutOfScopeError

#: The scripts' defaults.sh, as far as it matters.
_DEFAULTS = {
    "tcp_congestion_control": "cubic",
    "tcp_dsack": "1",
    "tcp_early_retrans": "4",
    "tcp_ecn": "0",
    "tcp_frto": "2",
    "tcp_invalid_ratelimit": "500",
    "tcp_min_tso_segs": "2",
    "tcp_pacing_ca_ratio": "120",
    "tcp_pacing_ss_ratio": "200",
    "tcp_recovery": "1",
    "tcp_reordering": "3",
    "tcp_rmem": f"4096 540000 {15 * 1024 * 1024}",
    "tcp_sack": "1",
    "tcp_slow_start_after_idle": "0",
    "tcp_timestamps": "1",
    "tcp_tso_win_divisor": "3",
    "tcp_window_scaling": "1",
    "tcp_wmem": f"4096 {256 * 1024} 4194304",
}
#: Without influence on what tcp/ models, or the behaviour here with any value that scripts give.
_IGNORED = {
    *("ip_local_port_range", "tcp_ecn_fallback", "tcp_ecn_option", "tcp_fack", "tcp_fastopen", "tcp_fastopen_key"),
    *("tcp_keepalive_time", "tcp_limit_output_bytes", "tcp_moderate_rcvbuf", "tcp_no_metrics_save"),
    *("tcp_no_ssthresh_metrics_save", "tcp_notsent_lowat", "tcp_retries1", "tcp_retries2", "tcp_syn_retries"),
    *("tcp_synack_retries", "tcp_fin_timeout", "tcp_orphan_retries", "tcp_abort_on_overflow"),
    *("tcp_backlog_ack_defer", "tcp_migrate_req", "optmem_max", "wmem_max", "rmem_max"),
}
#: What a value other than the one named asks for, and tcp/ does not model.
_OTHER_THINGS = {
    "tcp_mtu_probing": ("0", "probing of the path's MTU"),
    "tcp_rto_max_ms": ("120000", "another largest timeout than two minutes"),
    "tcp_shrink_window": ("0", "windows that shrink"),
    "tcp_syncookies": ("1", "SYN cookies"),
}
#: Commands that change nothing here.
_IDLE = {"defaults.sh", "true", "sleep", "rm", "dd"}
_ALGORITHMS = ("bbr", "bic", "cubic", "reno", "vegas", "westwood")
_HYSTART = {"hystart_detect": {"3"}, "hystart": {"0", "1"}, "hystart_low_window": {"16"}}


@dataclass
class Settings:
    """The machine of a script."""

    sysctls: dict[str, str] = field(default_factory=lambda: dict(_DEFAULTS))
    qdisc: str = "pfifo"
    drops: bool = False  #: the device takes no packet, and TCP knows
    has_offload: bool = True  #: the device takes bursts, and not one segment after the other
    initial_cwnd: int = 10
    hystart: bool = True
    mtu: int = 1500

    def run(self, commands: str) -> None:
        """Obey shell commands.

        Raises:
            NotRunError: one that this tool does not know.
            OutOfScopeError: one that sets what tcp/ does not model.
        """
        for line in commands.replace("\\\n", " ").splitlines():
            for command in line.split(";"):
                words = shlex.split(command, comments=True)
                if words:
                    self._obey([word for word in words if not re.fullmatch(r"\d?>>?.*|&|\|\|", word)])

    def _obey(self, words: list[str]) -> None:
        name = words[0].rpartition("/")[2]
        if name in _IDLE or name.startswith("sysctl_restore") or words == ["nstat", "-n"]:
            return
        if name == "nstat":
            raise OutOfScopeError("the kernel's counters (nstat)")
        if name == "sysctl":
            self._sysctl(words)
        elif name == "set_sysctls.py":
            for word in words[1:]:
                path, _, value = word.partition("=")
                self._set(path.rpartition("/")[2], value)
        elif name == "echo" and "/sys/module/tcp_cubic/parameters/" in words[-1]:
            self._cubic(words[-1].rpartition("/")[2], words[1])
        elif name == "ethtool":
            self._ethtool(words)
        elif words[:2] == ["tc", "qdisc"]:
            self._tc(words)
        elif words[0] == "ip":
            self._ip(words)
        else:
            raise _unknown(words)

    def _sysctl(self, words: list[str]) -> None:
        pairs = [word for word in words[1:] if not re.fullmatch("-[a-z]+", word)]
        if len(pairs) == 3 and pairs[1] == "=":
            pairs = ["".join(pairs)]
        for pair in pairs:
            name, sign, value = pair.partition("=")
            if not sign:
                raise NotRunError(f"sysctl: '{pair}' sets nothing")
            self._set(re.split("[./]", name)[-1], value.strip())

    def _set(self, name: str, value: str) -> None:
        value = re.sub(r"\$\(\((\d+)((?:\*\d+)*)\)\)", _product, value)
        if name == "tcp_window_scaling" and value != "1":
            raise NotRunError(f"sysctl: {name}={value} is not known")
        if name in _DEFAULTS:
            self.sysctls[name] = value
        elif name in _OTHER_THINGS:
            usual, thing = _OTHER_THINGS[name]
            if value != usual:
                raise OutOfScopeError(thing)
        elif name not in _IGNORED:
            raise NotRunError(f"sysctl: {name} is not known")

    def _cubic(self, name: str, value: str) -> None:
        if name not in _HYSTART or value not in _HYSTART[name]:
            raise NotRunError(f"tcp_cubic: {name}={value} is not known")
        if name == "hystart":
            self.hystart = value == "1"

    def _tc(self, words: list[str]) -> None:
        kind = words[words.index("root") + 1] if "root" in words[:-1] else ""
        self.drops = "limit" in words and words[words.index("limit") + 1] == "0"
        if kind not in ("fq", "pfifo", "pfifo_fast", "noqueue") or words[2] not in ("add", "replace"):
            raise _unknown(words)
        self.qdisc = kind

    def _ethtool(self, words: list[str]) -> None:
        options = dict(zip(words[3::2], words[4::2], strict=False))
        if words[1:2] != ["-K"] or not set(options.items()) <= {("tso", "off"), ("gso", "off")}:
            raise _unknown(words)
        self.has_offload = False

    def _ip(self, words: list[str]) -> None:
        if words[1] == "route" and "initcwnd" in words:
            self.initial_cwnd = int(words[words.index("initcwnd") + 1])
        elif words[1] != "tcp_metrics":
            raise _unknown(words)

    # What follows for the connection.

    def number(self, name: str) -> int:
        """Return a sysctl that is a number."""
        return int(self.sysctls[name])

    def memory(self, name: str) -> list[int]:
        """Return a sysctl that is three numbers."""
        return [int(word) for word in self.sysctls[name].split()]

    @property
    def algorithm(self) -> str:
        """The congestion control, as cc/variants.def names it."""
        name = self.sysctls["tcp_congestion_control"]
        if name not in _ALGORITHMS:
            raise OutOfScopeError(f"congestion control {name}")
        return name

    def facts(self) -> dict[str, object]:
        """Return the facts that differ from those of the preset linux-6.

        Raises:
            NotRunError: a value for which there is no fact.
        """
        for name, allowed in (
            ("tcp_pacing_ss_ratio", {"200"}),
            ("tcp_pacing_ca_ratio", {"120"}),
            ("tcp_reordering", {"3"}),
            ("tcp_frto", {"1", "2"}),
            ("tcp_recovery", {"1"}),
            ("tcp_tso_win_divisor", {"3", "100"}),
        ):
            if self.sysctls[name] not in allowed:
                raise NotRunError(f"sysctl: {name}={self.sysctls[name]} has no fact of the stack")
        facts: dict[str, object] = {
            "slow_start_after_idle": self.number("tcp_slow_start_after_idle"),
            "tail_loss_probe": int(self.number("tcp_early_retrans") in (3, 4)),
            "d_sack": self.number("tcp_dsack"),
            "min_tso_segs": self.number("tcp_min_tso_segs"),
            "initial_cwnd_segments": self.initial_cwnd,
            "hystart": int(self.hystart),
            "initial_receive_buffer_bytes": min(self.memory("tcp_rmem")[1], 6291456),
        }
        if self.number("tcp_tso_win_divisor") == 100:  # whatever the window leaves is enough
            facts["tso_deferral"] = "none"
        if self.qdisc == "fq":
            facts["pacing"] = "fq"
        return facts


def _unknown(words: list[str]) -> NotRunError:
    return NotRunError(f"command: '{' '.join(words)}' is not known")


def _product(match: re.Match[str]) -> str:
    return str(math.prod(int(factor) for factor in (match[1] + match[2]).split("*")))
