# SPDX-License-Identifier: GPL-2.0-only
"""Writes a policy in integer arithmetic as a C header, from the template `policy.h.jinja`."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from pathlib import Path

import jinja2

from bbrgym.agents.deploy.header_tables import HeaderTables
from bbrgym.agents.deploy.integer_memory import KEEP_BITS, MAX_AVERAGED, MAX_SUM
from bbrgym.agents.deploy.integer_policy import Choice, IntegerPolicy, IntegerTunable
from bbrgym.agents.deploy.integer_tables import EXP2_TABLE, LOG2_TABLE, Q16, TANH_TABLE
from bbrgym.agents.deploy.scalar_program import LN_2_Q30, LOG2_E_Q30, OPERATIONS

FORMAT = 2
"""Version of the shared object's entry, as world/policy.cpp has it."""

_WIDTH = 118


def policy_header(policy: IntegerPolicy) -> str:
    """Return the header of a policy, the same text for the same policy."""
    head, probe = policy.head, policy.probe
    tables = HeaderTables.of(policy)
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True, autoescape=False)
    template = Path(__file__).with_name("policy.h.jinja").read_text(encoding="utf-8")
    count = len(policy.tunables)
    return environment.from_string(template).render(
        policy=policy,
        format=FORMAT,
        tables=tables,
        widest=max([len(one.layer.biases) for one in tables.layers] + [len(row) for row in tables.leaves[:1]]),
        activations={one.layer.activation for one in tables.layers},
        choices=head.values.tolist() if isinstance(head, Choice) else [],
        choice_parts=head.parts.tolist() if isinstance(head, Choice) else [],
        is_relative=not isinstance(head, Choice) and head.is_relative,
        steps=[0] * count if isinstance(head, Choice) else head.steps.tolist(),
        limits=[Q16] * count if isinstance(head, Choice) else head.limits.tolist(),
        probe=probe,
        history=0 if probe is None else probe.intervals * policy.view,
        inputs=policy.stack * policy.view if probe is None else max([1, *(look.inputs for look in tables.looks)]),
        operations=OPERATIONS,
        log2_e=LOG2_E_Q30,
        ln_2=LN_2_Q30,
        keep_bits=KEEP_BITS,
        max_averaged=MAX_AVERAGED,
        max_sum=MAX_SUM,
        log2_table=LOG2_TABLE,
        exp2_table=EXP2_TABLE,
        tanh_table=TANH_TABLE,
        rows=_rows,
        per_unit=_per_unit,
    )


def _rows(numbers: Iterable[int]) -> str:
    """Return numbers as lines of a list."""
    return textwrap.fill(", ".join(map(str, numbers)), _WIDTH, initial_indent="    ", subsequent_indent="    ")


def _per_unit(tunable: IntegerTunable) -> int:
    return Q16 if tunable.unit == "ratio" else 1
