# SPDX-License-Identifier: GPL-2.0-only
"""The fixed baseline: who gets the variant, and which tunables go with it."""

import bbrgym
from bbrgym.evaluate.entrants import preset

SCENARIO = bbrgym.load_scenario(
    {
        "duration_s": 5.0,
        "link": {"rate_mbps": 10.0, "queue": {"size_bdp": 1.0}},
        "flows": [
            {"name": "l", "cc": "bbq", "role": "tuned", "rtt_ms": 20.0, "tunables": {"bbq_beta": 0.1}},
            {"name": "f", "cc": "bbr", "role": "fixed", "rtt_ms": 20.0},
            {"name": "b", "cc": "cubic", "role": "background", "rtt_ms": 20.0},
        ],
    }
)


def test_tuned_flows_alone_get_the_variant_and_their_own_tunables_stay_with_it() -> None:
    for variant in bbrgym.VARIANTS:
        flows = preset(variant).prepared(SCENARIO).flows
        assert [flow.cc for flow in flows] == [variant, "bbr", "cubic"]
    assert preset("bbq").prepared(SCENARIO).flows[0].tunables == {"bbq_beta": 0.1}
    assert preset("bbr").prepared(SCENARIO).flows[0].tunables == {}


def test_given_tunables_go_to_the_variants_that_have_them() -> None:
    tunables = {"bbq_alpha_us": 1000.0, "bbr_up_gain": 1.1}
    assert preset("bbq", tunables).prepared(SCENARIO).flows[0].tunables == {"bbq_beta": 0.1, **tunables}
    assert preset("bbr-acd", tunables).prepared(SCENARIO).flows[0].tunables == {"bbr_up_gain": 1.1}
    assert preset("cubic", tunables).prepared(SCENARIO).flows[0].tunables == {}
    assert preset("bbq", tunables).prepared(SCENARIO).flows[1].tunables == {}
