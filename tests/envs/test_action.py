# SPDX-License-Identifier: GPL-2.0-only
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import bbrgym
from bbrgym.envs.action import ActionMapping
from bbrgym.envs.discrete import MAX_COMBINATIONS, DiscreteLevels
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


def test_a_default_action_space_has_no_path_change():
    for variant in ("bbr-mix", "bbr3-mix"):
        named_only = {"use_path_change", "path_rise", "path_rise_us", "path_rounds"}
        assert set(VARIANTS[variant].preset) - set(TunableScaling(variant).names) == named_only
        assert set(TunableScaling(variant, sorted(named_only)).names) == named_only


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


# ---- discrete levels ---------------------------------------------------------------------------------


@st.composite
def grids(draw, most=40):
    """A grid's counts, and which tunables have ends."""
    size = draw(st.integers(1, 5))
    counts = draw(st.lists(st.integers(2, most), min_size=size, max_size=size))
    has_ends = draw(st.lists(st.booleans(), min_size=size, max_size=size))
    return np.array(counts), np.array(has_ends)


@pytest.mark.parametrize("count", [2, 3, 7, 10, 64])
def test_levels_go_evenly_from_end_to_end_or_are_middles_of_equal_parts(count):
    levels = np.arange(count)[:, None]
    with_ends, without = (
        DiscreteLevels(np.array([count]), np.array([has])).normalised(levels) for has in (True, False)
    )
    assert with_ends[:, 0] == pytest.approx(np.linspace(-1, 1, count))
    assert (with_ends[0], with_ends[-1]) == (-1.0, 1.0)
    edges = np.linspace(-1, 1, count + 1)
    assert without[:, 0] == pytest.approx((edges[:-1] + edges[1:]) / 2)


@given(grids(), st.data())
def test_no_other_level_is_nearer(counts_and_ends, data):
    grid = DiscreteLevels(*counts_and_ends)
    counts = counts_and_ends[0]
    wanted = np.array(data.draw(st.lists(st.floats(-1, 1), min_size=len(counts), max_size=len(counts))))
    found = grid.nearest(wanted)
    assert grid.space.contains(found)
    for i, count in enumerate(counts):
        others = np.tile(found, (count, 1))
        others[:, i] = np.arange(count)
        distances = np.abs(grid.normalised(others)[:, i] - wanted[i])
        assert distances[found[i]] <= distances.min() + 1e-12


@given(grids(most=5), st.integers(0, 2**32))
def test_a_flat_number_stands_for_one_combination(counts_and_ends, seed):
    counts, has_ends = counts_and_ends
    flat, grid = DiscreteLevels(counts, has_ends, flat=True), DiscreteLevels(counts, has_ends)
    assert flat.space == spaces.Discrete(int(np.prod(counts)))
    every = np.arange(flat.space.n)
    normalised = flat.normalised(every)
    assert len({row.tobytes() for row in normalised}) == flat.space.n
    assert (flat.nearest(normalised) == every).all()
    levels = np.random.default_rng(seed).integers(0, counts)
    number = flat.nearest(grid.normalised(levels))
    assert flat.normalised(number).tobytes() == grid.normalised(levels).tobytes()


def test_the_last_ones_level_changes_fastest():
    flat = DiscreteLevels(np.array([2, 3]), np.array([True, True]), flat=True)
    assert flat.normalised(np.arange(6)).tolist() == [[-1, -1], [-1, 0], [-1, 1], [1, -1], [1, 0], [1, 1]]


def test_what_there_is_most_of():
    with pytest.raises(
        bbrgym.ConfigError,
        match="flat: 17 x 17 x 17 levels make 4913 combinations, allowed are 4096: choose fewer tunables or levels",
    ):
        DiscreteLevels(np.full(3, 17), np.full(3, True), flat=True)
    assert DiscreteLevels(np.full(3, 16), np.full(3, True), flat=True).space.n == MAX_COMBINATIONS


@pytest.mark.parametrize(
    ("wrong", "flat"),
    [
        *((one, False) for one in ([0], [0, 3], [-1, 0], [0.0, 1.0], [[0, 0, 0]], 0, [True, False], ["0", "1"])),
        *((one, True) for one in (-1, 6, 0.5, True)),
    ],
)
def test_what_are_no_levels(wrong, flat):
    allowed = "are whole numbers from 0 to 5" if flat else r"are 2 whole numbers from 0, below \[2, 3\]"
    with pytest.raises(bbrgym.ConfigError, match=f"allowed {allowed}"):
        DiscreteLevels(np.array([2, 3]), np.array([True, True]), flat=flat).check(np.array(wrong))


# ---- scaling of tunables -----------------------------------------------------------------------------


@st.composite
def action_of_a_variant(draw):
    """A variant's action space and an action from it."""
    mapping = TunableScaling(draw(st.sampled_from(TUNED)))
    normalised = st.floats(-1.0, 1.0, width=32)
    return mapping, draw(hnp.arrays(np.float32, mapping.space.shape, elements=normalised))


@pytest.mark.parametrize("variant", TUNED)
def test_the_default_action_is_the_variants_own_setting(variant):
    mapping = TunableScaling(variant)
    assert mapping.space.contains(mapping.default)
    own = {name: VARIANTS[variant].preset[name] for name in mapping.names}
    assert mapping.to_values(mapping.default) == pytest.approx(own, rel=2e-6)


@given(action_of_a_variant(), st.data())
def test_a_larger_action_sets_no_smaller_value(space_and_action, data):
    mapping, action = space_and_action
    index = data.draw(st.integers(0, len(mapping.names) - 1))
    higher = action.copy()
    higher[index] = data.draw(st.floats(float(action[index]), 1.0, width=32))
    name = mapping.names[index]
    assert mapping.to_values(higher)[name] >= mapping.to_values(action)[name]


@pytest.mark.parametrize("n", [2, 9, 700])
@pytest.mark.parametrize("variant", TUNED)
def test_each_of_many_means_what_it_means_alone(variant, n):
    mapping = TunableScaling(variant)
    actions = np.random.default_rng(n).uniform(-1, 1, (n, len(mapping.names))).astype(np.float32)
    values, settings = mapping.snap(actions)
    again = mapping.normalised(values)
    assert again == pytest.approx(settings, abs=1e-5)
    for i in range(min(n, 50)):
        one, setting = mapping.snap(actions[i : i + 1])
        assert one.tobytes() == values[i].tobytes() == mapping.values(actions[i]).tobytes()
        assert setting.tobytes() == settings[i].tobytes()
        assert mapping.normalised(one).tobytes() == again[i].tobytes()


def test_the_middle_is_the_mean_or_the_geometric_mean():
    values = TunableScaling("bbq", ["bbr_up_gain", "bbq_alpha_us"]).to_values(np.zeros(2, np.float32))
    assert values == pytest.approx({"bbr_up_gain": 1.51, "bbq_alpha_us": 5000.0})


def test_whole_numbers_have_equal_parts():
    mapping = TunableScaling("bbr-acd", ["acd_identical_count"])
    middles = (np.arange(8, dtype=np.float32) * 2 + 1) / 8 - 1
    assert [mapping.to_values(c[None])["acd_identical_count"] for c in middles] == list(range(1, 9))
    assert [mapping.from_values({"acd_identical_count": n})[0] for n in range(1, 9)] == pytest.approx(middles)
