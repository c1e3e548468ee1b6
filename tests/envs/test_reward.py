# SPDX-License-Identifier: GPL-2.0-only
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bbrgym
from bbrgym.envs.reward import TERMS, Interval, Reward


def interval(
    goodput, rtt=None, base=None, active=None, learners=None, moved=(0.0,), capacity=8.0, sent=100.0, dropped=0.0
):
    flows = len(goodput)
    active = np.ones(flows) if active is None else active
    stats = {
        "active": active,
        "goodput_mbps": goodput,
        "fair_share_mbps": np.full(flows, capacity / max(np.count_nonzero(active), 1)),
        "rtt_mean_ms": np.full(flows, 10.0) if rtt is None else rtt,
        "dropped_pkts": np.full(flows, dropped),
        "sent_pkts": np.full(flows, sent),
    }
    stats = {name: np.array(values, float)[:, None] for name, values in stats.items()}
    learners = list(range(flows) if learners is None else learners)
    base = np.full(flows, 10.0) if base is None else np.array(base, float)
    return Interval(
        learners={name: values[learners] for name, values in stats.items()},
        flows=stats,
        base_rtt_ms=base[learners, None],
        moved=np.array([moved], np.float32),
    )


def terms_of(*args, **kwargs):
    return {name: values.item() for name, values in Reward().terms(interval(*args, **kwargs)).items()}


def term(name, *args, **kwargs):
    return terms_of(*args, **kwargs)[name]


def test_throughput():
    assert term("throughput", [8.0]) == 0.0
    assert term("throughput", [4.0, 4.0]) == 0.0
    assert term("throughput", [2.0, 8.0]) == 0.0  # a half and twice the share
    assert term("throughput", [2.0, 8.0], learners=[0]) == -1.0
    assert term("throughput", [2.0, 0.0], learners=[0], active=[1, 0]) == -2.0
    assert term("throughput", [0.0]) == -6.0
    assert term("throughput", [8.0], capacity=0.0) == 0.0


def test_delay():
    assert term("delay", [1.0], rtt=[10.0]) == 0.0
    assert term("delay", [1.0], rtt=[40.0]) == -2.0
    assert term("delay", [1.0, 1.0], rtt=[40.0, 100.0], base=[10.0, 100.0]) == -1.0
    assert term("delay", [1.0], rtt=[0.0]) == 0.0  # no sample yet
    assert term("delay", [1.0], rtt=[9.9]) == 0.0
    assert term("delay", [1.0], rtt=[1e6]) == -6.0


@pytest.mark.parametrize("flows", [1, 3, 5, 7])
def test_a_mean_of_floors_is_the_floor(flows):
    assert term("throughput", [0.0] * flows) == -6.0


def test_loss():
    assert term("loss", [1.0], dropped=0.0) == 0.0
    assert term("loss", [1.0], dropped=25.0) == -0.25
    assert term("loss", [1.0], sent=0.0, dropped=5.0) == -1.0


def test_fairness():
    assert term("fairness", [3.0, 3.0, 3.0]) == 0.0
    assert term("fairness", [9.0, 0.0, 0.0]) == pytest.approx(1 / 3 - 1)
    assert term("fairness", [9.0, 0.0, 9.0], active=[1, 0, 1]) == 0.0
    assert term("fairness", [0.0, 0.0]) == 0.0


def test_change():
    assert term("change", [1.0], moved=[0.0, 0.0]) == 0.0
    assert term("change", [1.0], moved=[2.0, 0.0]) == -0.5


def test_without_an_active_learner_nothing_is_paid_but_the_change():
    terms = terms_of([5.0, 5.0], active=[0, 1], learners=[0], moved=[2.0])
    assert terms == {"throughput": 0, "delay": 0, "loss": 0, "fairness": 0, "change": -1.0}


@given(st.data(), st.integers(1, 5))
def test_terms_stay_in_their_ranges(data, flows):
    def numbers(low, high):
        return data.draw(st.lists(st.floats(low, high), min_size=flows, max_size=flows))

    active = data.draw(st.lists(st.booleans(), min_size=flows, max_size=flows))
    terms = terms_of(
        goodput=np.minimum(numbers(0, 1e3), 8.0),
        rtt=numbers(0, 1e6),
        base=numbers(0.01, 1e4),
        active=active,
        moved=numbers(0, 2),
        sent=data.draw(st.floats(0, 1e6)),
        dropped=data.draw(st.floats(0, 1e6)),
    )
    assert set(terms) == set(TERMS)
    for name, value in terms.items():
        high = np.log2(flows) if TERMS[name].high == "log2(flows)" else float(TERMS[name].high)
        assert float(TERMS[name].low) <= value <= high + 1e-12


@given(st.dictionaries(st.sampled_from(list(TERMS)), st.floats(-10, 10)))
def test_the_total_is_the_weighted_sum(weights):
    reward = Reward(weights)
    terms = reward.terms(interval([2.0, 5.0], rtt=[20.0, 30.0], dropped=3.0, moved=[0.5]))
    expected = sum(weights.get(name, 0.0) * terms[name].item() for name in TERMS)
    assert reward.total(terms).item() == pytest.approx(expected)


def padded(table, flows):
    return {name: np.pad(v, ((0, flows), (0, 0)), constant_values=np.nan) for name, v in table.items()}


@pytest.mark.parametrize("n", [2, 9, 700])
@pytest.mark.parametrize(("learners", "tunables"), [(1, 1), (2, 9), (5, 31), (17, 5), (40, 2)])
@pytest.mark.parametrize("absent", [0, 20])
def test_each_of_many_is_paid_as_if_it_were_alone(n, learners, tunables, absent):
    """Beside others, and where others have more flows."""
    rng = np.random.default_rng(n)
    names = ("active", "goodput_mbps", "fair_share_mbps", "rtt_mean_ms", "dropped_pkts", "sent_pkts")
    flows = {name: np.exp(rng.normal(0, 3, (learners + 1, n))) for name in names}
    flows["active"] = rng.integers(0, 2, (learners + 1, n)).astype(float)
    whole = {
        "learners": {name: np.ascontiguousarray(values[1:]) for name, values in flows.items()},
        "base_rtt_ms": rng.uniform(1, 9, (learners, n)),
        "moved": rng.uniform(0, 2, (n, tunables)).astype(np.float32),
    }
    reward = Reward(dict.fromkeys(TERMS, 1.0 / 3.0))
    together = reward.terms(Interval(flows=padded(flows, absent), **whole))
    for i in range(min(n, 50)):
        one = {
            key: {name: v[:, i : i + 1].copy() for name, v in values.items()}
            if isinstance(values, dict)
            else values[:, i : i + 1].copy()
            for key, values in (whole | {"flows": flows}).items()
            if key != "moved"
        }
        alone = reward.terms(Interval(**one, moved=whole["moved"][i : i + 1].copy()))
        assert {name: v.tobytes() for name, v in alone.items()} == {
            name: v[i].tobytes() for name, v in together.items()
        }
        assert reward.total(alone).tobytes() == reward.total(together)[i].tobytes()


def test_the_default_is_the_score():
    assert Reward().weights == {"throughput": 1.0, "delay": 0.5, "loss": 0.0, "fairness": 0.0, "change": 0.0}


@pytest.mark.parametrize(
    ("weights", "text"),
    [
        ({"delai": 1.0}, "reward_weights: 'delai': did you mean delay"),
        ({"delay": float("nan")}, r"reward_weights\['delay'\]: nan, allowed is a finite number"),
    ],
)
def test_wrong_weights(weights, text):
    with pytest.raises(bbrgym.ConfigError, match=text):
        Reward(weights)
