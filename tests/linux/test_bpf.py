# SPDX-License-Identifier: GPL-2.0-only
"""cc/ in BPF: it compiles, the kernel takes it, and on a real transfer it does what the native cc/ does."""

import functools
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from kernel_world import compile_for_bpf, transfer, why_no_bpf
from machine_needs import needs
from owners import open_files

from bbrgym import _bpf
from bbrgym.agents.deploy.bpf_object import plugin_object
from bbrgym.errors import ConfigError

AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
CLANGS = [c for c in ("clang", *(f"clang-{version}" for version in range(14, 23))) if shutil.which(c)]
SLOW = ("bbr", "bbr-plus", "bbr-acd", "bbq", "bbr-pg", "bbr2", "bbr3-mix")
VARIANTS = ["bbr-mix", "bbr3", "direct", "bbr-scaled", *(pytest.param(one, marks=pytest.mark.slow) for one in SLOW)]
VARIANTS_OF_BBR3 = ("bbr3", "bbr2", "bbr3-mix")
START, ACK, LOSS_STATE, LOST = "0", "1", "2", "6"


@functools.cache
def why_not() -> str:
    return _bpf.why_not()


#: What a build or a machine may lack; any other reason is a fault of the program.
LACKS = ("was built without", "libbpf is missing", "Operation not permitted", "Permission denied", "kernel BTF")


@pytest.fixture
def machine() -> None:
    """Skips where the build or the machine lacks what it needs; loud, because then nothing of it is tested."""
    if any(lack in why_not() for lack in LACKS):
        pytest.skip(why_no_bpf())
    assert not why_not()


def inheritable_files() -> set[tuple[str, str]]:
    """Descriptors that a program started by this process would have too, with what each is."""
    return {
        (fd, file) for fd, file in open_files() if Path(f"/proc/self/fd/{fd}").exists() and os.get_inheritable(int(fd))
    }


@needs("clang")
@pytest.mark.parametrize("generation", [[], ["-DBBRGYM_BBR3"]], ids=["bbr", "bbr3"])
@pytest.mark.parametrize("clang", CLANGS or ["clang"])
def test_it_compiles_for_bpf_without_a_warning(clang: str, generation: list[str], tmp_path: Path) -> None:
    compile_for_bpf(tmp_path / "object.o", *generation, clang=clang)


def test_the_package_carries_it_where_it_can_be_compiled() -> None:
    assert _bpf.compiler().startswith("clang version ") or not CLANGS
    assert ("was built without" in why_not()) == (not _bpf.compiler())


@pytest.mark.usefixtures("machine")
def test_it_is_registered_as_long_as_its_object_lives_and_no_program_that_its_owner_starts_keeps_it() -> None:
    before = inheritable_files()
    control = _bpf.CongestionControl("bbq")
    name = control.name
    assert name in AVAILABLE.read_text().split()
    assert inheritable_files() <= before
    del control
    assert name not in AVAILABLE.read_text().split()


@pytest.mark.usefixtures("machine")
def test_the_kernel_takes_it_off_when_its_owner_is_killed() -> None:
    script = "from bbrgym import _bpf; c = _bpf.CongestionControl(); print(c.name, flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        name = owner.stdout.readline().strip()
        assert name in AVAILABLE.read_text().split()
        owner.send_signal(signal.SIGKILL)
        owner.wait(60)
    assert name not in AVAILABLE.read_text().split()


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("variant", ["cubic", "reno"])
def test_a_loss_based_variant_is_refused(variant: str) -> None:
    with pytest.raises(_bpf.CongestionControlError, match="in BPF there are those that pace"):
        _bpf.CongestionControl(variant)


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("variant", VARIANTS)
def test_each_event_of_a_transfer_ends_as_in_the_native_build(variant: str) -> None:
    replay = transfer(variant)["replay"]
    assert (replay["lost"], replay["different"]) == (0, 0)
    assert replay["events"][START] == 1
    assert replay["events"][ACK] > 100
    # direct has in flight what it is told, for which the path has room
    assert (LOSS_STATE in replay["events"]) == (variant != "direct"), "the path loses packets"
    assert (LOST in replay["events"]) == (variant in VARIANTS_OF_BBR3)


@needs("clang")
@pytest.mark.usefixtures("machine")
def test_each_event_of_a_users_file_ends_as_in_the_native_build(tmp_path: Path) -> None:
    file = Path(__file__).parents[1] / "cc" / "bbq.c"
    (tmp_path / "plugin.o").write_bytes(plugin_object(file))
    replay = transfer(str(file), str(tmp_path / "plugin.o"))["replay"]
    assert (replay["lost"], replay["different"]) == (0, 0)
    assert replay["events"][ACK] > 100


@needs("clang")
def test_what_a_users_file_has_that_the_kernel_does_not_is_named_with_its_line(tmp_path: Path) -> None:
    text = (Path(__file__).parents[1] / "cc" / "bbq.c").read_text()
    line = "    bool replace;\n"
    (tmp_path / "float.c").write_text(text.replace(line, f"{line}    volatile double x = 1.5 * (double)rs->rtt_us;\n"))
    with pytest.raises(ConfigError, match=r"float\.c: clang cannot compile it: line 50: A call to built-in function"):
        plugin_object(tmp_path / "float.c")


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(("program", "variant"), [("bbr", "bbr3"), ("bbr2", "bbq")])
def test_a_program_has_one_generation(program: str, variant: str) -> None:
    control = _bpf.CongestionControl(program)
    with (
        socket.socket() as sender,
        pytest.raises(_bpf.CongestionControlError, match="the program has the other generation of BBR"),
    ):
        control.attach(sender.fileno(), variant)


@pytest.mark.usefixtures("machine")
def test_a_flow_uses_it_and_tells_its_state() -> None:
    flow = transfer("bbq")
    assert flow["used"] == flow["name"]
    assert flow["before"] is None
    assert flow["state"]["acks"] > 0
    assert 0 < flow["state"]["min_rtt_us"] < 1_000_000
    assert flow["state"]["bw_Bps"] > 0
    assert flow["received"] > 100_000


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("variant", ["bbr", "bbr3"])
def test_the_verifier_needs_far_less_than_its_limit(variant: str) -> None:
    verified = {row["name"]: row["verified"] for row in transfer(variant)["costs"]}
    assert max(verified.values()) == verified["cong_control"]
    assert verified["cong_control"] < 100_000, "the kernel's limit is a million"


@pytest.mark.usefixtures("machine")
def test_the_pacing_timer_asks_no_program_unless_rates_may_be_low() -> None:
    usual = {row["name"]: row["runs"] for row in transfer("bbr")["costs"]}
    slow = {row["name"]: row["runs"] for row in transfer("bbr", "slow")["costs"]}
    assert usual["min_tso_segs"] == 0
    assert min(usual["cong_control"], slow["cong_control"], slow["min_tso_segs"]) > 100
