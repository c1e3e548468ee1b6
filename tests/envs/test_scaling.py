# SPDX-License-Identifier: GPL-2.0-only

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import bbrgym
from bbrgym.envs.scaling import TunableScaling
from bbrgym.tunables import VARIANTS

TUNED = [name for name, variant in VARIANTS.items() if variant.preset]


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
    assert mapping.to_values(mapping.default) == pytest.approx(dict(VARIANTS[variant].preset), rel=2e-6)


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


@pytest.mark.parametrize(
    ("variant", "tunables", "text"),
    [
        ("bbz", None, "variant 'bbz': did you mean bb"),
        ("cubic", None, "variant 'cubic' has no tunables to set"),
        ("bbq", ["plus_alpha"], "tunables: 'plus_alpha' is not one of bbq's: .*allowed are bbr_up_gain"),
        ("bbq", ["bbq_beta", "bbq_beta"], "allowed is a non-empty list without repetition"),
        ("bbq", [], "allowed is a non-empty list without repetition"),
    ],
)
def test_wrong_choices(variant, tunables, text):
    with pytest.raises(bbrgym.ConfigError, match=text):
        TunableScaling(variant, tunables)
