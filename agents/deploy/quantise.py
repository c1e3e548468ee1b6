# SPDX-License-Identifier: GPL-2.0-only
"""Turns an agent's network, observation and actions into a policy in integer arithmetic."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Literal

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from bbrgym.agents.deploy.fixed_point import COUNT_DIGITS, MAX_FIELD, MAX_WEIGHT, Q16, Q20, Integers
from bbrgym.agents.deploy.integer_policy import (
    Activation,
    Choice,
    Identification,
    IntegerFeature,
    IntegerField,
    IntegerLayer,
    IntegerMemory,
    IntegerPolicy,
    IntegerTunable,
    Moves,
)
from bbrgym.agents.networks import Network, clipped, largest
from bbrgym.envs.action import ActionMapping
from bbrgym.envs.features import Feature
from bbrgym.envs.flow_batch import FlowBatch
from bbrgym.envs.memory import EWMA_S, MEASURED, Remembered
from bbrgym.envs.options import Options
from bbrgym.envs.scaling import NOT_BELOW, WHOLE_NUMBERS, NormalisedAction, TunableScaling
from bbrgym.envs.tune_batch import TuneBatch
from bbrgym.errors import ConfigError
from bbrgym.tunables import TUNABLES, VARIANTS
from bbrgym.worlds import Table
from bbrgym.worlds.fields import FLOW_FIELDS

_WHOLE_UNITS = {"Mbit/s": ("_mbps", "_Bps", 125_000), "ms": ("_ms", "_us", 1_000), "ratio": ("", "_q16", Q16)}
"""Suffix of a field's name, that of the whole field's name, and whole units in one; of other units all stay."""

_MAX_BIAS = 1 << 58
_MAX_INPUTS = 1 << 14  # so many products of 46 digits sum to 60
_MAX_SHIFT = 30
_ACTIVATIONS: dict[type[nn.Module], Activation] = {nn.Tanh: "tanh", nn.ReLU: "relu"}
_KNOWN: tuple[type[nn.Module], ...] = (nn.Linear, *_ACTIVATIONS)
_FACTOR = 1 << 56  # so that a factor times a span has at most 57 digits


def quantise(network: nn.Module, batch: TuneBatch | FlowBatch, options: Options, agent: str) -> IntegerPolicy:
    """Return a network with the observation and the actions of an environment in integer arithmetic.

    Raises:
        ConfigError: the policy has no form in integers here.
    """
    if not isinstance(network, Network):
        raise ConfigError(
            f"agent {agent} samples or remembers, allowed with format c are agents that do neither (agent.acts=mean, "
            "and no recurrent one)"
        )
    linears = list(_linears(network.layers))
    if network.head is torch.tanh:
        linears[-1] = (linears[-1][0], "tanh")
    layers = tuple(_layer(linear.weight, linear.bias, activation) for linear, activation in linears)
    plan = ObservationPlan(batch, options)
    return plan.policy(agent, _head(network, batch.action, plan.tunables, batch.scaling), layers=layers)


class ObservationPlan:
    """Parts of a policy that the environment decides.

    Raises:
        ConfigError: its observation has no form in integers here.
    """

    def __init__(self, batch: TuneBatch | FlowBatch, options: Options) -> None:
        self._batch, self._options = batch, options
        interval_us = options.fixed_interval_s("with format c") * 1e6
        self._interval_us = round(interval_us)
        if not math.isclose(self._interval_us, interval_us, abs_tol=1e-6) or self._interval_us < 1:
            raise ConfigError(
                f"control_interval_s: {options.control_interval_s}, allowed with format c are whole microseconds"
            )
        self._is_pooled = options.view == "pooled"
        self._names = _field_names(batch.observation.features, self._is_pooled)
        self.tunables = tuple(_tunable(name, batch.scaling) for name in batch.scaling.names)

    def policy(
        self,
        agent: str,
        head: Moves | Choice,
        *,
        layers: tuple[IntegerLayer, ...] = (),
        identification: Identification | None = None,
    ) -> IntegerPolicy:
        """Return the policy of a network or of a portfolio."""
        observation, is_per_flow = self._batch.observation, isinstance(self._batch, FlowBatch)
        memory = observation.memory_terms
        operands = [*self._names, *map(str, memory)]
        return IntegerPolicy(
            agent=agent,
            variant=self._batch.scaling.variant,
            interval_us=self._interval_us,
            is_per_flow=is_per_flow,
            flows=1 if is_per_flow else self._batch.max_tuned,
            is_pooled=self._is_pooled,
            stack=observation.frame_stack,
            hold=self._options.hold_intervals,
            fields=tuple(_field(name) for name in self._names),
            memory=tuple(self._remembered(one) for one in memory),
            features=tuple(_feature(feature, operands) for feature in observation.features),
            tunables=self.tunables,
            head=head,
            layers=layers,
            identification=identification,
        )

    def _remembered(self, one: Remembered) -> IntegerMemory:
        field, minus = (-1 if name is None else self._names.index(name) for name in (one.field, one.minus))
        interval_s = self._interval_us / 1e6
        keep = one.half(interval_s) if one.kind == "low" else 0
        if one.kind in ("ewma", "high"):
            keep = min(round(math.exp(-interval_s / (one.over_s or EWMA_S)) * (1 << 32)), (1 << 32) - 1)
        return IntegerMemory(one.kind, field, minus, keep, _digits(one))


# ---- observation --------------------------------------------------------------------------------------


def _field_names(features: tuple[Feature, ...], is_pooled: bool) -> list[str]:
    """Return the names of the fields of features, in the order of the table of fields."""
    used = {"active"} if is_pooled else set()
    for feature in features:
        used |= {*feature.fields, *(MEASURED if feature.memory_terms else ())}
    known = [field.name for field in FLOW_FIELDS if field.visibility == "sender"]
    for name in sorted(used):
        if name not in known:
            raise ConfigError(f"features: {name} is not a measured field; format=c supports only those")
    return [name for name in known if name in used]


def _field(name: str) -> IntegerField:
    (unit,) = [field.unit for field in FLOW_FIELDS if field.name == name]
    suffix, whole_suffix, per_unit = _WHOLE_UNITS.get(unit, ("", "", 1))
    return IntegerField(name.removesuffix(suffix) + whole_suffix, name, per_unit)


def _per_unit(operand: str | Remembered) -> int:
    """Return the whole units in one unit of a field, or of what is remembered of one."""
    if isinstance(operand, str):
        return _field(operand).per_unit
    return 1_000_000 if operand.kind == "seconds" else _field(operand.field).per_unit << _digits(operand)


def _digits(one: Remembered) -> int:
    """Return the digits behind the point of what is remembered of a field."""
    return COUNT_DIGITS if one.kind in ("mean", "ewma") and _field(one.field).per_unit == 1 else 0


def _feature(feature: Feature, operands: list[str]) -> IntegerFeature:
    field, per = operands.index(str(feature.field)), -1 if feature.per is None else operands.index(str(feature.per))
    units = _per_unit(feature.field) / (1 if feature.per is None else _per_unit(feature.per))
    if feature.low < 0:
        raise ConfigError(
            f"features: {feature.name} begins at {feature.low:g}, allowed with format c are ranges from 0"
        )
    ends = [feature.low * units, feature.high * units]
    if feature.scale == "log":
        low, high = (_log2(end) for end in ends)
    elif feature.scale == "linear":
        low, high = (round(end * (1 if per < 0 else Q16)) for end in ends)
    else:
        low, high = math.ceil(ends[0]), math.floor(ends[1])
    if high - low > MAX_FIELD:
        raise ConfigError(f"features: {feature.name} reaches to {feature.high:g} {feature.unit}, too far for format c")
    return IntegerFeature(feature.scale, field, per, low, high - low, _FACTOR // max(high - low, 1))


def _log2(x: float) -> int:
    """Return log2 in Q20."""
    return round(math.log2(x) * Q20)


# ---- network ------------------------------------------------------------------------------------------


def _linears(module: nn.Module) -> Iterator[tuple[nn.Linear, Activation]]:
    """Yield the linear layers of a network, each with the function behind it."""
    flat: list[nn.Module] = [one for one in module.modules() if not list(one.children())]
    flat = [one for one in flat if not isinstance(one, nn.Flatten | nn.Identity)]
    for one, following in itertools.zip_longest(flat, flat[1:]):
        if isinstance(one, nn.Linear):
            yield one, _ACTIVATIONS.get(type(following), "none")
        elif type(one) not in _ACTIVATIONS:
            allowed = ", ".join(known.__name__ for known in _KNOWN)
            raise ConfigError(f"network: has a layer {type(one).__name__}, allowed with format c are {allowed}")


def _layer(weight: Tensor, bias: Tensor | None, activation: Activation) -> IntegerLayer:
    """Return a layer whose weights use as many of 16 bits as a power of two as scale allows."""
    weights = weight.detach().double().numpy()
    biases = np.zeros(len(weights)) if bias is None else bias.detach().double().numpy()
    return IntegerLayer(*whole_weights(weights, biases), activation)


def whole_weights(weights: Table, biases: Table) -> tuple[Integers, Integers, int]:
    """Return weights and biases times a power of two, and its exponent.

    Args:
        weights: [outputs, inputs].
        biases: [outputs].

    Raises:
        ConfigError: the numbers are too large, or too many.
    """
    if weights.shape[1] > _MAX_INPUTS:
        raise ConfigError(f"network: a layer has {weights.shape[1]} inputs, allowed with format c are {_MAX_INPUTS}")
    sizes = (np.abs(weights).max(), MAX_WEIGHT), (np.abs(biases).max() * Q16, _MAX_BIAS)
    room = min([_MAX_SHIFT, *(math.floor(math.log2(most / size)) for size, most in sizes if size > 0.0)])
    if room < 1:
        largest_one = max(np.abs(weights).max(), np.abs(biases).max())
        raise ConfigError(f"network: has weights or biases of {largest_one:g}, too large for format c")
    whole, whole_biases = (np.rint(numbers * (1 << room)).astype(np.int64) for numbers in (weights, biases * Q16))
    return whole, whole_biases, room


# ---- actions ------------------------------------------------------------------------------------------


def _tunable(name: str, scaling: TunableScaling) -> IntegerTunable:
    table = TUNABLES[name]
    units, bound = Q16 if table.unit == "ratio" else 1, NOT_BELOW.get(name)
    low = math.ceil(table.low * units)
    scale: Literal["log", "linear", "whole"] = "log" if table.scale == "log" else "linear"
    scale = "whole" if table.unit in WHOLE_NUMBERS else scale
    logarithms = [_log2(end * units) if scale == "log" else 0 for end in (table.low, table.high)]
    least = low
    if bound is not None and bound not in scaling.names:
        least = max(low, round(VARIANTS[scaling.variant].preset[bound] * units))
    return IntegerTunable(
        name=name,
        unit=table.unit,
        per_unit=units,
        scale=scale,
        low=low,
        high=math.floor(table.high * units),
        low_log2=logarithms[0],
        high_log2=logarithms[1],
        not_below=scaling.names.index(bound) if bound in scaling.names else -1,
        least=least,
    )


def _head(
    network: Network, action: ActionMapping, tunables: tuple[IntegerTunable, ...], scaling: TunableScaling
) -> Moves | Choice:
    if isinstance(action.space, spaces.Box) and network.head in (clipped, torch.tanh):
        steps = np.zeros(len(tunables)) if action.step is None else action.step
        limits = np.full(len(tunables), 2.0) if action.limit is None else action.limit
        halves = (np.rint(one * (Q16 / 2)).astype(np.int64) for one in (steps, limits))
        return Moves(action.step is not None, *halves)
    is_absolute = action.step is None and action.limit is None
    if isinstance(action.space, spaces.Discrete) and network.head is largest and is_absolute:
        count = int(action.space.n)
        return Choice(*whole_settings(*action.apply(np.arange(count), np.tile(scaling.default, (count, 1))), tunables))
    raise ConfigError(
        f"action space: {action.space}, allowed with format c are normalised actions, and one number for absolute "
        "levels or settings"
    )


def whole_settings(
    values: Table, normalised: NormalisedAction, tunables: tuple[IntegerTunable, ...]
) -> tuple[Integers, Integers]:
    """Return settings in whole units, and their positions: [..., tunables] all."""
    whole = np.rint(values * [one.per_unit for one in tunables]).astype(np.int64)
    positions = np.rint((normalised.astype(np.float64) + 1.0) * (Q16 / 2)).astype(np.int64)
    return np.clip(whole, [one.low for one in tunables], [one.high for one in tunables]), positions
