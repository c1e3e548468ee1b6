# SPDX-License-Identifier: GPL-2.0-only
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

import bbrgym
from bbrgym.envs.action import ActionMapping
from bbrgym.envs.scaling import NOT_BELOW, TunableScaling
from bbrgym.tunables import TUNABLES, VARIANTS

TUNED = [name for name, variant in VARIANTS.items() if variant.preset]
WHOLE = ("count", "mode", "switch")
FLOAT32 = 1e-6  # what a normalised value may be off by


@st.composite
def controls(draw, kinds=("absolute", "relative")):
    """Any action space of a variant's tunables, and these."""
    variant = draw(st.sampled_from(TUNED))
    preset = list(VARIANTS[variant].preset)
    names = draw(st.lists(st.sampled_from(preset), min_size=1, max_size=8, unique=True))
    tunables = TunableScaling(variant, names)
    kind = draw(st.sampled_from(kinds))
    levels = draw(st.none() | st.sampled_from([3, 5, 11] if kind == "relative" else [2, 3, 7, 20]))
    max_change = draw(st.none() | st.floats(0.01, 2.0))
    return tunables, ActionMapping(
        tunables, kind, levels=levels, step_size=draw(st.floats(0.01, 2.0)), max_change=max_change
    )


def started(tunables, n=1):
    """Settings that N environments start with."""
    return np.tile(tunables.normalised(tunables.values(tunables.default)), (n, 1))


def played(control, tunables, seed, n=3, steps=12):
    """What random actions lead to from the variant's own setting: values and normalised ones before and after."""
    rng = np.random.default_rng(seed)
    settings = started(tunables, n)
    values = tunables.values(settings)
    for _ in range(steps):
        actions = random_actions(control, rng, n)
        reached = control.apply(actions, settings)
        yield actions, (values, settings), reached
        values, settings = reached


def random_actions(control, rng, n):
    if isinstance(control.space, spaces.Box):
        return rng.uniform(-1, 1, (n, *control.space.shape)).astype(np.float32)
    if isinstance(control.space, spaces.Discrete):
        return rng.integers(0, control.space.n, n)
    return rng.integers(0, control.space.nvec, (n, len(control.space.nvec)))


@given(controls(), st.integers(0, 2**32))
def test_every_action_leads_to_a_legal_setting(tunables_and_control, seed):
    tunables, control = tunables_and_control
    for actions, _, (values, settings) in played(control, tunables, seed):
        assert control.space.contains(actions[0])
        assert tunables.space.contains(settings[0])
        for name, column in zip(tunables.names, values.T, strict=True):
            assert (TUNABLES[name].low <= column).all()
            assert (column <= TUNABLES[name].high).all()
            assert TUNABLES[name].unit not in WHOLE or (column == np.rint(column)).all()
        for upper, lower in NOT_BELOW.items():
            if upper in tunables.names and lower in tunables.names:
                low, high = (values[:, tunables.names.index(name)] for name in (lower, upper))
                assert (low <= high).all()


@given(controls(), st.integers(0, 2**32))
def test_the_setting_says_all_that_the_next_one_depends_on(tunables_and_control, seed):
    tunables, control = tunables_and_control
    for *_, (values, settings) in played(control, tunables, seed):
        assert tunables.values(settings) == pytest.approx(values, rel=1e-12)


@given(controls(), st.integers(0, 2**32))
def test_nothing_moves_farther_than_allowed(tunables_and_control, seed):
    tunables, control = tunables_and_control
    whole = tunables.value_counts > 0
    between_values = np.where(whole, 2.0 / np.maximum(tunables.value_counts, 1), 0.0)
    for _, (_, before), (_, after) in played(control, tunables, seed):
        for farthest in (control.step, control.limit):
            if farthest is not None:
                assert (np.abs(after - before) <= farthest + FLOAT32).all()
                assert (farthest[whole] >= between_values[whole] - FLOAT32).all()


@pytest.mark.parametrize("variant", TUNED)
@pytest.mark.parametrize("levels", [None, 3, 5])
def test_an_action_of_1_moves_by_the_step_size_and_0_stays(variant, levels):
    tunables = TunableScaling(variant)
    control = ActionMapping(tunables, "relative", levels=levels, step_size=0.125)
    middle = tunables.snap(np.zeros((1, len(tunables.names)), np.float32))[1]
    is_whole = tunables.value_counts > 0
    lows, highs = (np.array([getattr(TUNABLES[name], end) for name in tunables.names]) for end in ("low", "high"))
    for direction in (-1, 0, 1):
        action = np.full(middle.shape, direction, np.float32)
        if levels is not None:
            last = control.space.nvec - 1
            action = np.where(action < 0, 0, np.where(action > 0, last, last // 2)).astype(np.int64)
        values, reached = control.apply(action, middle)
        assert reached[:, ~is_whole] == pytest.approx(middle[:, ~is_whole] + direction * 0.125)
        numbers = np.maximum(0.125 // (2.0 / tunables.value_counts[is_whole]), 1.0)
        expected = tunables.values(middle)[:, is_whole] + direction * numbers
        assert (values[:, is_whole] == np.clip(expected, lows[is_whole], highs[is_whole])).all()


def test_a_relative_action_turns_a_switch_on_and_off():
    tunables = TunableScaling("bbr-mix", ["use_probe_cap"])
    control = ActionMapping(tunables, "relative", step_size=0.01)
    setting, seen = np.array([[-0.5]], np.float32), []
    for action in (0.4, 0.9, 0.0, 1.0, -0.4, -1.0, -1.0):
        values, setting = control.apply(np.array([[action]], np.float32), setting)
        seen.append(values.item())
    assert seen == [0, 1, 1, 1, 1, 0, 0]


def test_a_limit_lets_an_absolute_action_get_there_step_by_step():
    tunables = TunableScaling("bbr-acd", ["acd_alpha_us", "acd_identical_count"])
    control = ActionMapping(tunables, max_change=0.5)
    setting, seen = np.array([[-1.0, -0.875]], np.float32), []
    for _ in range(6):
        values, setting = control.apply(np.ones((1, 2), np.float32), setting)
        seen.append(values[0].tolist())
    assert [alpha for alpha, _ in seen] == [1250, 2500, 3750, 5000, 5000, 5000]
    assert [count for _, count in seen] == [3, 5, 7, 8, 8, 8]


@pytest.mark.parametrize("variant", TUNED)
@pytest.mark.parametrize("levels", [2, 9])
def test_a_grid_covers_the_ends_and_every_whole_number(variant, levels):
    tunables = TunableScaling(variant)
    control = ActionMapping(tunables, levels=levels)
    counts = control.space.nvec
    assert (counts == np.where(tunables.value_counts > 0, tunables.value_counts, levels)).all()
    settings = started(tunables, max(counts))
    each = np.minimum(np.arange(max(counts))[:, None], counts - 1)
    values = control.apply(each, settings)[0]
    for i, name in enumerate(tunables.names):
        assert (values[0, i], values[-1, i]) == (TUNABLES[name].low, TUNABLES[name].high)
        if tunables.value_counts[i]:
            assert values[: counts[i], i].tolist() == list(range(int(TUNABLES[name].low), int(TUNABLES[name].high) + 1))


@pytest.mark.parametrize("variant", TUNED)
@pytest.mark.parametrize("levels", [None, 3, 21])
def test_the_default_is_the_own_setting_or_the_nearest(variant, levels):
    tunables = TunableScaling(variant)
    control = ActionMapping(tunables, levels=levels)
    assert control.space.contains(control.default)
    _, setting = control.apply(control.default, tunables.default)
    off = np.abs(setting - tunables.default)
    assert (off <= (0.0 if levels is None else 1.0 / (levels - 1)) + FLOAT32).all()
    assert (off[tunables.value_counts > 0] <= FLOAT32).all()


@given(controls(["relative"]), st.integers(0, 2**32))
def test_the_default_of_relative_actions_stays(tunables_and_control, seed):
    tunables, control = tunables_and_control
    for *_, (values, settings) in played(control, tunables, seed, n=1):
        assert control.space.contains(control.default)
        still = control.apply(control.default[None], settings)
        assert [part.tobytes() for part in still] == [values.tobytes(), settings.tobytes()]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"kind": "relativ"}, "action_kind: 'relativ': did you mean relative"),
        ({"levels": 1}, "levels: 1, allowed are whole numbers from 2"),
        ({"levels": 2.0}, r"levels: 2\.0, allowed"),
        ({"levels": True}, "levels: True, allowed"),
        ({"kind": "relative", "levels": 4}, "levels: 4, allowed are odd numbers from 3: the middle level stays"),
        ({"flat": True}, "flat: True without levels, allowed with discrete actions: give levels"),
        ({"levels": 9, "flat": True}, "9 x 9 x 9 x 9 x 9 x 9 x 2 x 2 levels make 2125764 combinations"),
        ({"step_size": 0.0}, r"step_size: 0\.0, allowed are numbers above 0, up to 2"),
        ({"max_change": 2.1}, r"max_change: 2\.1, allowed are numbers above 0, up to 2"),
        ({"max_change": float("nan")}, "max_change: nan, allowed"),
        ({"max_change": "much"}, "max_change: 'much', allowed"),
    ],
)
def test_wrong_choices(options, text):
    with pytest.raises(bbrgym.ConfigError, match=text):
        ActionMapping(TunableScaling("bbq"), **options)


@pytest.mark.parametrize("kind", ["absolute", "relative"])
@pytest.mark.parametrize(
    ("action", "flaw"),
    [
        ([0.0, 1.1], "gymnasium.wrappers.ClipAction makes them so"),
        ([np.nan, 0.0], r"it is nan at \[0\]"),
        ([0.0], r"its shape is \(1,\), not \(2,\)"),
        (0.0, r"its shape is \(\), not \(2,\)"),
    ],
)
def test_wrong_actions(kind, action, flaw):
    control = ActionMapping(TunableScaling("bbq", ["bbq_beta", "bbq_alpha_us"]), kind)
    with pytest.raises(bbrgym.ConfigError, match=rf"allowed are 2 numbers in \[-1, 1\]; {flaw}$"):
        control.apply(np.array(action, np.float32), np.zeros(2, np.float32))
