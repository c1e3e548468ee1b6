# SPDX-License-Identifier: GPL-2.0-only
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bbrgym.envs.reward import Reward
from bbrgym.envs.terms import TERMS, TermInputs, alpha_fair
from bbrgym.worlds.fields import FLOW_FIELDS

FIELDS = [field.name for field in FLOW_FIELDS]
EVERY = Reward(dict.fromkeys(TERMS, 0.0))


def interval(
    goodput,
    rtt=None,
    base=None,
    active=None,
    tuned=None,
    change=(0.0,),
    capacity=8.0,
    sent=100.0,
    dropped=0.0,
    retransmitted=0.0,
):
    flows = len(goodput)
    active = np.ones(flows) if active is None else active
    stats = dict.fromkeys(FIELDS, np.zeros(flows)) | {
        "active": active,
        "goodput_mbps": goodput,
        "fair_share_mbps": np.full(flows, capacity / max(np.count_nonzero(active), 1)),
        "rtt_mean_ms": np.full(flows, 10.0) if rtt is None else rtt,
        "dropped_pkts": np.full(flows, dropped),
        "retransmitted_pkts": np.full(flows, retransmitted),
        "sent_pkts": np.full(flows, sent),
    }
    stats = {name: np.array(values, float)[:, None] for name, values in stats.items()}
    tuned = list(range(flows) if tuned is None else tuned)
    base = np.full(flows, 10.0) if base is None else np.array(base, float)
    return TermInputs(
        counted={name: values[tuned] for name, values in stats.items()},
        flows=stats,
        base_rtt_ms=base[tuned, None],
        change=np.array([change], np.float32),
    )


def terms_of(*args, **kwargs):
    return {name: values.item() for name, values in EVERY.terms(interval(*args, **kwargs)).items()}


def term(name, *args, **kwargs):
    return terms_of(*args, **kwargs)[name]


@pytest.mark.parametrize(
    ("name", "goodput", "others", "expected"),
    [
        ("throughput", [4.0, 4.0], {}, 0.0),
        ("throughput", [2.0, 8.0], {}, 0.0),  # a half and twice the share
        ("throughput", [2.0, 8.0], {"tuned": [0]}, -1.0),
        ("throughput", [2.0, 0.0], {"tuned": [0], "active": [1, 0]}, -2.0),
        ("throughput", [0.0], {}, -6.0),
        ("throughput", [8.0], {"capacity": 0.0}, 0.0),
        ("throughput", [8.0], {"capacity": 0.1}, 6.0),
        ("delay", [1.0], {"rtt": [10.0]}, 0.0),
        ("delay", [1.0], {"rtt": [40.0]}, -2.0),
        ("delay", [1.0, 1.0], {"rtt": [40.0, 100.0], "base": [10.0, 100.0]}, -1.0),
        ("delay", [1.0], {"rtt": [0.0]}, 0.0),  # no sample yet
        ("delay", [1.0], {"rtt": [1e6]}, -6.0),
        ("power", [4.0, 4.0], {}, 1.0),
        ("power", [2.0, 4.0], {"rtt": [10.0, 20.0]}, 0.5),
        ("power", [8.0], {"rtt": [0.0]}, 1.0),  # no sample yet
        ("power", [0.0], {}, 0.0),
        ("power", [8.0], {"capacity": 0.1}, 64.0),
        ("goodput", [2.0, 8.0], {}, 1.25),
        ("goodput", [8.0], {"capacity": 0.0}, 1.0),
        ("loss", [1.0], {"dropped": 25.0}, -0.25),
        ("loss", [1.0], {"sent": 0.0, "dropped": 5.0}, -1.0),
        ("retransmission", [1.0], {"retransmitted": 0.0, "dropped": 5.0}, 0.0),
        ("retransmission", [1.0], {"retransmitted": 25.0}, -0.25),
        ("retransmission", [1.0], {"sent": 0.0, "retransmitted": 5.0}, -1.0),
        ("fairness", [3.0, 3.0, 3.0], {}, 0.0),
        ("fairness", [9.0, 0.0, 0.0], {}, pytest.approx(1 / 3 - 1)),
        ("fairness", [9.0, 0.0, 9.0], {"active": [1, 0, 1]}, 0.0),
        ("change", [1.0], {"change": [2.0, 0.0]}, -0.5),
    ],
)
def test_each_term(name, goodput, others, expected):
    assert term(name, goodput, **others) == expected


def alpha_fair_of(alpha, *args, **kwargs):
    return alpha_fair(interval(*args, **kwargs), alpha).item()


def test_alpha_fair():
    assert alpha_fair_of(0.0, [2.0, 8.0]) == pytest.approx(0.25 / np.log(2))  # the mean goodput, from 1 on
    assert alpha_fair_of(1.0, [2.0, 8.0]) == 0.0
    assert alpha_fair_of(2.0, [2.0, 8.0]) == pytest.approx((-1.0 + 0.5) / 2 / np.log(2))  # minus the mean time of a bit
    assert alpha_fair_of(2.0, [0.0]) == alpha_fair_of(7.0, [0.0]) == -64.0


@given(st.lists(st.floats(0.01, 30.0), min_size=1, max_size=4), st.floats(0, 8), st.floats(0, 8))
def test_alpha_fair_falls_with_alpha_and_is_throughput_at_1(goodput, alpha, beta):
    low, high = sorted([alpha, beta])
    assert alpha_fair_of(high, goodput) <= alpha_fair_of(low, goodput) + 1e-9
    assert alpha_fair_of(1.0, goodput) == term("throughput", goodput)
    assert alpha_fair_of(1.0 + 1e-7, goodput) == pytest.approx(term("throughput", goodput), abs=1e-4)


def test_without_an_active_tuned_flow_nothing_is_paid_but_the_change():
    terms = terms_of([5.0, 5.0], active=[0, 1], tuned=[0], change=[2.0])
    assert terms == {name: -1.0 if name == "change" else 0.0 for name in TERMS}


@given(st.data(), st.integers(1, 5))
def test_terms_stay_in_their_ranges(data, flows):
    def numbers(low, high):
        return data.draw(st.lists(st.floats(low, high), min_size=flows, max_size=flows))

    active = data.draw(st.lists(st.booleans(), min_size=flows, max_size=flows))
    terms = terms_of(
        goodput=numbers(0, 1e3),
        rtt=numbers(0, 1e6),
        base=numbers(0.01, 1e4),
        active=active,
        change=numbers(0, 2),
        sent=data.draw(st.floats(0, 1e6)),
        dropped=data.draw(st.floats(0, 1e6)),
        retransmitted=data.draw(st.floats(0, 1e6)),
    )
    assert set(terms) == set(TERMS)
    for name, value in terms.items():
        assert TERMS[name].low <= value <= TERMS[name].high


def padded(table, flows):
    return {name: np.pad(v, ((0, flows), (0, 0)), constant_values=np.nan) for name, v in table.items()}


@pytest.mark.parametrize("n", [2, 9, 700])
@pytest.mark.parametrize(("tuned", "tunables"), [(1, 1), (2, 9), (5, 31), (17, 5), (40, 2)])
@pytest.mark.parametrize("absent", [0, 20])
def test_each_of_many_is_paid_as_if_it_were_alone(n, tuned, tunables, absent):
    """Beside others, and where others have more flows."""
    rng = np.random.default_rng(n)
    flows = {name: np.exp(rng.normal(0, 3, (tuned + 1, n))) for name in FIELDS}
    flows["active"] = rng.integers(0, 2, (tuned + 1, n)).astype(float)
    whole = {
        "counted": {name: np.ascontiguousarray(values[1:]) for name, values in flows.items()},
        "base_rtt_ms": rng.uniform(1, 9, (tuned, n)),
        "change": rng.uniform(0, 2, (n, tunables)).astype(np.float32),
    }
    reward = Reward({**dict.fromkeys(TERMS, 1.0 / 3.0), "alpha": 2.0})
    together = reward.terms(TermInputs(flows=padded(flows, absent), **whole))
    for i in range(min(n, 50)):
        one = {
            key: {name: v[:, i : i + 1].copy() for name, v in values.items()}
            if isinstance(values, dict)
            else values[:, i : i + 1].copy()
            for key, values in (whole | {"flows": flows}).items()
            if key != "change"
        }
        alone = reward.terms(TermInputs(**one, change=whole["change"][i : i + 1].copy()))
        assert {name: v.tobytes() for name, v in alone.items()} == {
            name: v[i].tobytes() for name, v in together.items()
        }
        assert reward.total(alone).tobytes() == reward.total(together)[i].tobytes()
