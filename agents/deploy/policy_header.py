# SPDX-License-Identifier: GPL-2.0-only
"""Writes a policy in integer arithmetic as one C header: sizes, tables, and the runtime that all policies share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from .fixed_point import EXP2_TABLE, LOG2_TABLE, MAX_FIELD, MAX_NUMBER, Q16, TANH_TABLE
from .integer_policy import OPERATIONS, Choice, Identification, IntegerLayer, IntegerPolicy

_WIDTH = 118

_HEADER = """\
/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The policy of an agent, {agent}, that sets tunables of {variant} every {interval_us} us. Written by
 * `bbrgym export format=c`: integers only, no libc, no allocation.
 *
 *   struct policy_state state = {{0}};   tunables = the current ones       policy_begin(&state);
 *   every interval:                    fields, flows = the measurements  policy_decide(&state); tunables = the new ones
 *
 * With BBRGYM_POLICY_ENTRY defined it is a shared object that simulated worlds load (world/policy.hpp).
 */
#ifndef BBRGYM_POLICY_H
#define BBRGYM_POLICY_H

{sizes}

{types}
/* ---- tables ---- */

{tables}

{runtime}
#endif
"""


def policy_header(policy: IntegerPolicy) -> str:
    """Return the header of a policy, the same text for the same policy."""
    sizes, tables = [*_sizes(policy)], [*_tables(policy)]
    if policy.identification is None:
        sizes += _view_sizes(policy)
    else:
        sizes += _portfolio_sizes(policy, policy.identification)
        tables += _portfolio_tables(policy.identification)
    if policy.layers:
        sizes += _network_sizes(policy.layers)
        tables += _network_tables(policy.layers)
    return _HEADER.format(
        agent=policy.agent,
        variant=policy.variant,
        interval_us=policy.interval_us,
        sizes="\n".join(sizes),
        types=_source("policy_types.h"),
        tables="\n".join(tables),
        runtime=_source("policy_runtime.h"),
    )


def _source(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


# ---- every policy -------------------------------------------------------------------------------------


def _sizes(policy: IntegerPolicy) -> Iterator[str]:
    settings = len(policy.head.values) if isinstance(policy.head, Choice) else 0
    choices = settings if policy.identification is None else settings - 1
    yield f'#define POLICY_AGENT "{policy.agent}"'
    yield f'#define POLICY_VARIANT "{policy.variant}"'
    yield f"#define POLICY_INTERVAL_US {policy.interval_us}"
    yield f"#define POLICY_HOLD {policy.hold}u /* intervals for which a decision holds */"
    yield f"#define POLICY_IS_PER_FLOW {policy.is_per_flow:d} /* 0: one controller for all tuned flows */"
    yield f"#define POLICY_FLOWS {policy.flows}u /* largest number that a controller observes */"
    yield f"#define POLICY_FEATURES {len(policy.features)}u"
    yield f"#define POLICY_FEATURE_BITS {policy.feature_bits} /* behind the point */"
    yield f"#define POLICY_MEMORIES {len(policy.memory)}u /* numbers that are remembered of each flow */"
    yield f"#define POLICY_MAX_FIELD INT64_C({MAX_FIELD}) /* a larger measurement counts as this */"
    yield f"#define POLICY_SETTINGS {settings}u /* the choices, and the one of the identification */"
    yield f"#define POLICY_CHOICES {choices}u /* settings with an output each; 0: each tunable has one */"
    yield "/* FIELD(name, name of the world's field, whole units in one of its) */"
    yield _calls("POLICY_FIELDS", "FIELD", ((one.name, f'"{one.source}"', one.per_unit) for one in policy.fields))
    yield "/* TUNABLE(name, kind in tunables.def, whole units in one) */"
    yield _calls("POLICY_TUNABLES", "TUNABLE", ((one.name, one.unit, one.per_unit) for one in policy.tunables))


def _tables(policy: IntegerPolicy) -> Iterator[str]:
    yield _table(
        "struct policy_feature policy_features[POLICY_FEATURES]",
        (
            (one.low, one.span, one.factor, f"POLICY_{one.scale.upper()}", one.field, _or(one.per, "UINT32_MAX"))
            for one in policy.features
        ),
    )
    if policy.memory:
        yield _table(
            "struct policy_memory policy_memories[POLICY_MEMORIES]",
            (
                (
                    f"POLICY_{one.kind.upper()}",
                    *(one.field, _or(one.minus, "POLICY_FIELD_COUNT"), f"{one.keep}u", one.digits),
                )
                for one in policy.memory
            ),
        )
    count = len(policy.tunables)
    steps = [0] * count if isinstance(policy.head, Choice) else policy.head.steps.tolist()
    limits = [Q16] * count if isinstance(policy.head, Choice) else policy.head.limits.tolist()
    yield _table(
        "struct policy_tunable policy_tunables[POLICY_TUNABLE_COUNT]",
        (
            (
                *(one.low, one.high, one.low_log2, one.high_log2, one.least),
                *(_or(one.not_below, "POLICY_TUNABLE_COUNT"), f"POLICY_{one.scale.upper()}", step, limit),
            )
            for one, step, limit in zip(policy.tunables, steps, limits, strict=True)
        ),
    )
    yield "/* log2 from 1 to 2 in Q20 */"
    yield _row("int32_t policy_log2_table[257]", LOG2_TABLE)
    if policy.identification is not None or not isinstance(policy.head, Choice):
        yield "/* powers of 2 from exponent 0 to 1 in Q30 */"
        yield _row("uint32_t policy_exp2_table[257]", EXP2_TABLE)
    if isinstance(policy.head, Choice):
        yield _table("int64_t policy_settings[POLICY_SETTINGS][POLICY_TUNABLE_COUNT]", policy.head.values)
        positions = policy.head.positions
        yield _table("int32_t policy_setting_positions[POLICY_SETTINGS][POLICY_TUNABLE_COUNT]", positions)


# ---- networks -----------------------------------------------------------------------------------------


def _view_sizes(policy: IntegerPolicy) -> Iterator[str]:
    yield "#define POLICY_IDENTIFICATION 0u /* it is not a portfolio */"
    yield f"#define POLICY_IS_POOLED {policy.is_pooled:d} /* it observes mean, minimum and maximum over active flows */"
    yield f"#define POLICY_VIEW {policy.view}u /* inputs from one interval */"
    yield f"#define POLICY_INPUTS {policy.stack * policy.view}u"
    yield f"#define POLICY_IS_RELATIVE {not isinstance(policy.head, Choice) and policy.head.is_relative:d}"


def _network_sizes(layers: Sequence[IntegerLayer]) -> Iterator[str]:
    targets = [f"layers[{place % 2}]" for place in reversed(range(len(layers)))]  # the last one is layers[0]
    yield f"#define POLICY_WIDEST {max(len(one.biases) for one in layers)}u"
    yield f"#define POLICY_USES_TANH {any(one.activation == 'tanh' for one in layers):d}"
    yield "/* LAYER(number, inputs, outputs, number of these inputs and outputs, digits of the weights, function) */"
    rows = (
        (number, source, target, *one.weights.shape[::-1], one.shift, one.activation)
        for number, (one, source, target) in enumerate(zip(layers, ["inputs", *targets], targets, strict=False))
    )
    yield _calls("POLICY_LAYERS", "LAYER", rows)


def _network_tables(layers: Sequence[IntegerLayer]) -> Iterator[str]:
    if any(one.activation == "tanh" for one in layers):
        yield "/* tanh from 0 to 8 in Q16 */"
        yield _row("int32_t policy_tanh_table[513]", TANH_TABLE)
    for number, one in enumerate(layers):
        outputs, inputs = one.weights.shape
        yield _table(f"int16_t policy_weights_{number}[{outputs}][{inputs}]", one.weights)
        yield _row(f"int64_t policy_biases_{number}[{outputs}]", one.biases)


# ---- portfolios ---------------------------------------------------------------------------------------


def _portfolio_sizes(policy: IntegerPolicy, identification: Identification) -> Iterator[str]:
    program = identification.program
    held = len(policy.tunables) if identification.reselects else 0
    yield f"#define POLICY_IDENTIFICATION {identification.intervals}u /* intervals that a choice goes by */"
    yield f"#define POLICY_PAUSE {identification.pause}u /* intervals from a choice to the next one */"
    yield f"#define POLICY_RESELECTS {identification.reselects:d}"
    yield f"#define POLICY_HISTORY {program.inputs - held}u"
    yield f"#define POLICY_MOST INT64_C({MAX_NUMBER}) /* the program's numbers saturate there */"
    yield f"#define POLICY_CONSTANTS {len(program.constants)}u"
    yield f"#define POLICY_CELLS {max(program.cells, 1)}u"
    yield f"#define POLICY_STEPS {len(program.steps)}u"
    yield _calls("POLICY_OPERATIONS", "OPERATION", ((name.upper(),) for name in OPERATIONS))
    yield f"#define POLICY_INPUTS {len(program.outputs)}u /* of the network, results of the program */"


def _portfolio_tables(identification: Identification) -> Iterator[str]:
    program = identification.program
    yield _row("int64_t policy_constants[POLICY_CONSTANTS]", program.constants)
    yield _table("uint16_t policy_steps[POLICY_STEPS][5]", program.steps)
    yield _row("uint32_t policy_results[POLICY_INPUTS]", program.outputs)


# ---- C ------------------------------------------------------------------------------------------------


def _calls(name: str, macro: str, rows: Iterable[Iterable[Any]]) -> str:
    """Return the definition of a macro that calls another one for each row."""
    return " \\\n    ".join([f"#define {name}({macro})", *(f"{macro}({_joined(row)})" for row in rows)])


def _table(declaration: str, rows: Iterable[Iterable[Any]]) -> str:
    return f"POLICY_TABLE {declaration} = {{\n{_filled(f'{{{_joined(row)}}}' for row in rows)}\n}};"


def _row(declaration: str, numbers: Iterable[Any]) -> str:
    return f"POLICY_TABLE {declaration} = {{\n{_filled(map(str, numbers))}\n}};"


def _filled(parts: Iterable[str]) -> str:
    """Return lines of as many parts as have room; a part that has none is a line of its own."""
    lines = [""]
    for part in parts:
        if lines[-1] and len(lines[-1]) + len(part) > _WIDTH:
            lines.append("")
        lines[-1] += f" {part}," if lines[-1] else f"    {part},"
    return "\n".join(lines)


def _joined(row: Iterable[Any]) -> str:
    return ", ".join(map(str, row))


def _or(number: int, otherwise: str) -> Any:
    """Return a number, or what stands for a negative one."""
    return number if number >= 0 else otherwise
