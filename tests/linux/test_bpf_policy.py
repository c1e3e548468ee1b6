# SPDX-License-Identifier: GPL-2.0-only
"""A policy in the kernel: the verifier takes it, and it decides as the same policy does natively."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compiled_policies import CompiledPolicy, Controller
from kernel_world import ANY_LATENESS, compile_for_bpf, needs_bpf, needs_kernel, scenario
from kernel_world import transfer as transferred
from machine_needs import needs
from policies import FLAT, options_of, random_policy, random_portfolio, write_header

import bbrgym
from bbrgym import _bpf
from bbrgym.agents.deploy.integer_policy import Choice, IntegerPolicy
from bbrgym.tunables import VARIANTS

KINDS: dict[str, dict[str, Any]] = {
    "bbq": {"variant": "bbq", "frame_stack": 3},
    "bbr-mix": {"variant": "bbr-mix", "frame_stack": 3},
    "levels": {"variant": "bbq", **FLAT},
    "bbr3": {"variant": "bbr3", "frame_stack": 3},
    "memory": {"variant": "bbq", "features": "memory", "hold_intervals": 2},
    "path": {"variant": "bbr-mix", "features": "path"},
}

needs_clang = needs("clang")


def compiled(policy: IntegerPolicy, folder: Path) -> Path:
    """The program with a policy in it."""
    header = write_header(policy, folder / "policy.h")
    generation = [] if VARIANTS[policy.variant].algorithm == "bbr" else ["-DBBRGYM_BBR3"]
    return compile_for_bpf(folder / "policy.bpf.o", *generation, f'-DBBRGYM_POLICY="{header}"')


@functools.cache
def policy_of(kind: str) -> IntegerPolicy:
    return random_policy(options_of(**KINDS[kind]))


Program = Callable[[str], Path]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """Compiles the program with a policy of a kind once, and returns it."""
    return functools.cache(lambda kind: compiled(policy_of(kind), tmp_path_factory.mktemp("bpf")))


#: The other kinds contain what these do.
SLOW = ("bbq", "bbr-mix", "levels")
EVERY = [pytest.param(kind, marks=pytest.mark.slow) if kind in SLOW else kind for kind in KINDS]


@pytest.fixture(scope="module", params=EVERY)
def transfer(request: pytest.FixtureRequest, program: Program) -> tuple[IntegerPolicy, Any]:
    """What came of a transfer in a network namespace of its own."""
    policy = policy_of(request.param)
    return policy, transferred(policy.variant, str(program(request.param)))


@needs_clang
@pytest.mark.parametrize("kind", KINDS)
def test_a_policy_compiles_for_bpf_without_a_warning(kind: str, program: Program) -> None:
    assert program(kind).stat().st_size > 0


@needs_clang
def test_a_policy_for_all_flows_is_refused(tmp_path: Path) -> None:
    policy = random_policy(options_of(is_per_flow=False, view="pooled", max_tuned=2))
    with pytest.raises(AssertionError, match="the policy acts for all tuned flows, of which a socket knows one"):
        compiled(policy, tmp_path)


@needs_clang
@needs_bpf
def test_the_kernel_decides_as_the_native_build_does(transfer: tuple[IntegerPolicy, Any], tmp_path: Path) -> None:
    policy, result = transfer
    assert (result["replay"]["lost"], result["replay"]["different"]) == (0, 0)
    verified = {row["name"]: row["verified"] for row in result["costs"]}
    assert verified["cong_control"] < 300_000, "the kernel's limit is a million"
    decisions, decision_ns, state = result["policy"]
    assert decisions > 2
    assert decision_ns > 0
    kernel, native = (loaded(policy, tmp_path, state) for _ in range(2))
    native.call("find_features")  # again, which what is remembered would not bear
    instant = [feature.field < len(policy.fields) and feature.per < len(policy.fields) for feature in policy.features]
    assert native["features"][instant].tolist() == kernel["features"][instant].tolist()
    assert kernel["inputs"][-policy.view :][: len(instant)].tolist() == kernel["features"].tolist()
    if policy.hold > 1 and decisions % policy.hold == 0:
        return  # the last decision was on other inputs
    native["tunables"][:] = native["layers"][:] = 0
    native.call("act")
    for member in ("tunables", "positions", "layers"):
        assert native[member].tolist() == kernel[member].tolist()


@needs_clang
@needs_bpf
@pytest.mark.parametrize("reselects", [pytest.param(False, marks=pytest.mark.slow), True], ids=["holds", "reselects"])
def test_a_portfolio_chooses_in_the_kernel(reselects: bool, tmp_path: Path) -> None:
    policy = random_portfolio(pause=1 if reselects else None)
    assert policy.identification is not None
    assert isinstance(policy.head, Choice)
    result = transferred(policy.variant, str(compiled(policy, tmp_path)))
    decisions, _, raw = result["policy"]
    kernel, native = (loaded(policy, tmp_path, raw) for _ in range(2))
    chosen = int(kernel["chosen"][0])
    full = policy.identification.intervals
    assert decisions > full
    assert kernel["observed"][0] == full  # of which it forgets one before the next
    assert kernel["tunables"].tolist() == policy.head.values[chosen].tolist()
    if not reselects:  # else the last choice may have been by what was held
        native.call("run_program")
        native.call("predict")
        assert native["layers"][: len(policy.head.values) - 1].argmax() == chosen
    names = [str(one.kind) for one in policy.memory]
    assert kernel["remembered"][names.index("max")] >= kernel["fields"][policy.memory[names.index("max")].field]
    verified = {row["name"]: row["verified"] for row in result["costs"]}["cong_control"]
    assert verified < 500_000, "the kernel's limit is a million"


def loaded(policy: IntegerPolicy, folder: Path, state: str) -> Controller:
    """Return a native controller in the state of the kernel's."""
    (folder / "native").mkdir(exist_ok=True)
    controller = Controller(CompiledPolicy(policy, folder / "native"))
    controller.load(bytes.fromhex(state))
    return controller


@needs_clang
@needs_bpf
def test_what_it_measures_is_the_transfer(transfer: tuple[IntegerPolicy, Any], tmp_path: Path) -> None:
    policy, result = transfer
    fields = loaded(policy, tmp_path, result["policy"][2])["fields"]
    measured = dict(zip([field.name for field in policy.fields], fields.tolist(), strict=True))
    assert measured["active"] == 1
    assert 0 < measured["delivery_rate_Bps"] < 4_000_000
    assert 0 < measured["min_rtt_us"] <= measured["rtt_min_us"] <= measured["rtt_mean_us"] < 1_000_000
    assert measured["rtt_min_us"] * 0.98 <= measured["rtt_p95_us"] < 1_000_000
    assert measured["lost_pkts"] <= measured["sent_pkts"]
    assert measured.get("phase", 0) < 16


@needs_clang
@needs_bpf
def test_no_policy_and_one_for_the_other_generation_are_refused(program: Program) -> None:
    with pytest.raises(_bpf.CongestionControlError, match="cannot read the BPF object 'nowhere'"):
        _bpf.CongestionControl("bbq", program="nowhere")
    with pytest.raises(_bpf.CongestionControlError, match="compile it without -DBBRGYM_BBR3"):
        _bpf.CongestionControl("bbq", program=str(program("bbr3")))


# ---- the world ----------------------------------------------------------------------------------------


@needs_clang
@needs_bpf
@needs_kernel
def test_a_world_shows_what_the_policy_sets(program: Program) -> None:
    target = program("bbr-mix")
    flows = [{"cc": "bbr-mix", "role": "tuned"}, {"cc": "bbr-mix", "role": "fixed"}]
    options = {**ANY_LATENESS, "policy": str(target)}
    with bbrgym.make_world("linux", scenario(*flows, duration_s=3.0), options=options) as world:
        preset = world.tunables().copy()
        world.advance(3.0)
        tuned, fixed = world.tunables()
    tunables, own = bbrgym.tunables.TUNABLES, bbrgym.tunables.VARIANTS["bbr-mix"].preset
    is_own = np.array([name in own for name in tunables])
    assert ((tuned != preset[0]) & is_own).sum() > 10
    assert all(
        one.low <= value <= one.high for one, value in zip(tunables.values(), tuned, strict=True) if one.name in own
    )
    assert np.isnan(tuned[~is_own]).all()
    assert fixed.tobytes() == preset[1].tobytes()


@needs_clang
@needs_bpf
@needs_kernel
def test_a_scenario_without_its_variant_is_refused(program: Program) -> None:
    options = {**ANY_LATENESS, "policy": str(program("bbq"))}
    with pytest.raises(ValueError, match="policy: sets tunables of bbq, expected a flow with role tuned and that cc"):
        bbrgym.make_world("linux", scenario({"cc": "bbr"}), options=options)
