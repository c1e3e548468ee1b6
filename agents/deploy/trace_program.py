# SPDX-License-Identifier: GPL-2.0-only
"""Traces PyTorch functions into programs of operations on single numbers, for `policy_runtime.h`.

Every number is Q20 and saturates at 2^41, which stands for infinity too; true is 1 and false 0:

    add a b   subtract a b   multiply a b   divide a b (0 by 0)   smaller a b   larger a b   less a b
    exp a   log a   sqrt a (0 below 0)   choose a b c (b where a is above 0, else c)

An operand is a constant, an input or a cell. Cells hold results; a cell is used again when its number is not needed any
more.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from bbrgym.agents.deploy.fixed_point import MAX_NUMBER, Q20
from bbrgym.agents.deploy.integer_policy import OPERATIONS, ScalarProgram
from bbrgym.errors import ConfigError
from bbrgym.worlds import Flags

_MAX_OPERANDS = 1 << 16


def traced(function: Callable[[Tensor], Tensor], example: Tensor, is_input: Flags) -> ScalarProgram:
    """Return a function of PyTorch as a program.

    Args:
        function: of one array, [1, ...], to [1, outputs].
        example: for tracing, [1, ..., numbers].
        is_input: whether each number of the last axes is an input; the others may not be used.

    Raises:
        ConfigError: the function has an operation that programs do not know, or needs other numbers.
    """
    writer = _Writer(example, is_input)
    with torch.no_grad(), writer:
        result = function(example)
    return writer.program(result)


_Operands = NDArray[np.int64]
"""Array of operands: constants below 0 (-1 - number), then inputs, then results."""

# Operations of PyTorch: those of programs, sequences of these, sums and the like over axes, and views or copies, which
# need no steps. `_Writer` has methods for the others.
_EACH: Mapping[str, str] = {
    **{name: name for name in ("add", "exp", "log", "sqrt")},
    "sub": "subtract",
    "mul": "multiply",
    "div": "divide",
    "lt": "less",
    "where": "choose",
    **dict.fromkeys(("minimum", "bitwise_and", "logical_and"), "smaller"),
    **dict.fromkeys(("maximum", "bitwise_or", "logical_or"), "larger"),
}
_COMPOSED: Mapping[str, Callable[..., _Operands]] = {
    "rsub": lambda each, a, b: each("subtract", b, a),
    "neg": lambda each, a: each("subtract", 0.0, a),
    "abs": lambda each, a: each("larger", a, each("subtract", 0.0, a)),
    "expm1": lambda each, a: each("subtract", each("exp", a), 1.0),
    "gt": lambda each, a, b: each("less", b, a),
    "ge": lambda each, a, b: each("subtract", 1.0, each("less", a, b)),
    "le": lambda each, a, b: each("subtract", 1.0, each("less", b, a)),
    **dict.fromkeys(("bitwise_not", "logical_not"), lambda each, a: each("subtract", 1.0, a)),
}
_REDUCED: Mapping[str, str] = {"sum": "add", "amin": "smaller", "amax": "larger", "any": "larger"}
_VIEWS: Mapping[str, Callable[..., Any]] = {
    "select": lambda a, axis, index: np.take(a, index, axis),
    "slice": lambda a, axis=0, start=None, end=None, step=1: np.moveaxis(
        np.moveaxis(a, axis, 0)[slice(start, end, step)], 0, axis
    ),
    **dict.fromkeys(("view", "reshape", "_unsafe_view"), np.reshape),
    "unsqueeze": np.expand_dims,
    "squeeze": lambda a, axis=None: np.squeeze(a, tuple(axis) if isinstance(axis, list) else axis),
    "expand": lambda a, shape: np.broadcast_to(
        a, [old if new < 0 else new for old, new in zip(a.shape[-len(shape) :], shape, strict=True)]
    ),
    "permute": np.transpose,
    "stack": np.stack,
    "cat": np.concatenate,
    **dict.fromkeys(("clone", "detach", "_to_copy", "alias", "lift_fresh_copy"), lambda a: a),
}


class _Writer(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Writes the steps of PyTorch's operations while PyTorch runs.

    Tracing them with `torch.fx` first takes ten times as long, for graphs that nothing else needs.
    """

    def __init__(self, example: Tensor, is_input: Flags) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        kept = np.broadcast_to(is_input, tuple(example.shape))
        self._inputs = int(kept.sum())
        self._unknown = self._inputs + (1 << 40)  # stands for what is not an input
        given = np.full(kept.shape, self._unknown)
        given[kept] = np.arange(self._inputs)
        self._constants: dict[int, int] = {}
        self._steps: list[tuple[int, int, int, int]] = []
        self._known: dict[tuple[int, int, int, int], int] = {}
        self._operands = {id(example): given}
        self._tensors = [example]  # alive, so that no other has the number of one of them

    def program(self, result: Tensor) -> ScalarProgram:
        """Return the program of what was done, whose results are those of a tensor."""
        return self._placed(self._value(result).ravel())

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Write an operation's steps and run the operation."""
        values = self._call(func, [self._value(one) for one in args], kwargs or {})
        done = func(*args, **(kwargs or {}))
        self._keep(done, values)
        return done

    def _keep(self, done: Any, values: Any) -> None:
        if isinstance(done, Tensor):
            self._operands[id(done)] = values
            self._tensors.append(done)
        else:
            for one, value in zip(done, values, strict=True):
                self._keep(one, value)

    def _value(self, argument: Any) -> Any:
        if isinstance(argument, Tensor):
            known = self._operands.get(id(argument))
            return self._array(argument.numpy()) if known is None else known
        return [self._value(one) for one in argument] if isinstance(argument, list | tuple) else argument

    # ---- PyTorch's operations ----------------------------------------------------------------------------------

    def _call(self, operation: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        name = operation.__name__
        kind = name.split(".")[0]
        named = {key: one for key, one in kwargs.items() if key in ("alpha", "min", "max")}
        if kind in _EACH:
            return self._each(_EACH[kind], *args, **named)
        if kind in _COMPOSED:
            return _COMPOSED[kind](self._each, *args, **named)
        if kind in _REDUCED:
            return self._reduced(_REDUCED[kind], *args, **named)
        if kind in _VIEWS:
            return _VIEWS[kind](*args, **named)
        method = getattr(self, f"_do_{kind}", None)
        if method is None:
            raise ConfigError(f"network: has an operation {name}, of which format c has no form in integers")
        return method(*args, **named)

    def _do_pow(self, a: Any, power: float) -> _Operands:
        if power != 2:
            raise ConfigError(f"network: has a power of {power:g}, of which format c has no form in integers")
        return self._each("multiply", a, a)

    def _do_clamp(self, a: Any, low: Any = None, high: Any = None, **named: Any) -> _Operands:
        low, high = named.get("min", low), named.get("max", high)
        bounded = a if low is None else self._each("larger", a, low)
        return bounded if high is None else self._each("smaller", bounded, high)

    def _do_mean(self, a: _Operands, axes: Any = None, keepdim: bool = False) -> _Operands:
        total = self._reduced("add", a, axes, keepdim)
        return self._each("divide", total, float(a.size // total.size))

    def _do_sort(self, a: _Operands, axis: int = -1, descending: bool = False) -> tuple[_Operands, None]:
        rows = [*np.moveaxis(a, axis, 0)]
        for end in range(len(rows) - 1, 0, -1):
            for place in range(end):
                low = self._each("smaller", rows[place], rows[place + 1])
                high = self._each("larger", rows[place], rows[place + 1])
                rows[place : place + 2] = [high, low] if descending else [low, high]
        return np.moveaxis(np.stack(rows), 0, axis), None  # its indices have no form in integers

    def _do_scalar_tensor(self, number: float) -> _Operands:
        return self._array(np.array(number))

    # ---- steps -------------------------------------------------------------------------------------------------

    def _array(self, numbers: Any) -> _Operands:
        scaled = np.asarray(numbers, np.float64) * Q20
        whole = np.rint(np.clip(scaled, -float(MAX_NUMBER), float(MAX_NUMBER))).astype(np.int64)
        found = [-1 - self._constants.setdefault(one, len(self._constants)) for one in whole.ravel().tolist()]
        return np.array(found, np.int64).reshape(whole.shape)

    def _each(self, operation: str, *operands: Any) -> _Operands:
        arrays = [one if isinstance(one, np.ndarray) else self._array(one) for one in operands]
        spread = np.broadcast_arrays(*arrays)
        code = OPERATIONS.index(operation)
        found = [self._step(code, *one) for one in zip(*(each.ravel().tolist() for each in spread), strict=True)]
        return np.array(found, np.int64).reshape(spread[0].shape)

    def _reduced(self, operation: str, a: _Operands, axes: Any = None, keepdim: bool = False) -> _Operands:
        chosen = range(a.ndim) if axes is None or axes == [] else [axes] if isinstance(axes, int) else axes
        result = a
        for axis in chosen:
            total = functools.reduce(functools.partial(self._each, operation), np.moveaxis(result, axis, 0))
            result = np.expand_dims(total, axis)
        return result if keepdim else np.squeeze(result, tuple(chosen))

    def _step(self, code: int, a: int, b: int | None = None, c: int | None = None) -> int:
        step = (code, a, a if b is None else b, a if c is None else c)
        if self._unknown in step[1:]:
            raise ConfigError(
                "network: needs numbers beside the features of flows, allowed with format c are these alone"
            )
        if step not in self._known:
            self._known[step] = self._inputs + len(self._steps)
            self._steps.append(step)
        return self._known[step]

    # ---- cells -------------------------------------------------------------------------------------------------

    def _placed(self, outputs: _Operands) -> ScalarProgram:
        """Return the steps that the outputs need, each result in a cell that is free."""
        # the last step that needs a result
        last = {one: len(self._steps) for one in outputs.tolist() if one >= self._inputs}
        order: list[int] = []
        for number in reversed(range(len(self._steps))):
            if self._inputs + number in last:
                order.append(number)
                for one in self._steps[number][1:]:
                    if one >= self._inputs:
                        last.setdefault(one, number)
        order.reverse()
        constants = sorted(
            {-1 - one for number in order for one in self._steps[number][1:] if one < 0}
            | {-1 - one for one in outputs.tolist() if one < 0}
        )
        values, number_of = list(self._constants), {one: place for place, one in enumerate(constants)}
        cell_of: dict[int, int] = {}
        free: list[int] = []
        ends: dict[int, list[int]] = {}
        cells, rows = 0, []

        def operand(one: int) -> int:
            if one < 0:
                return number_of[-1 - one]
            if one < self._inputs:
                return len(constants) + one
            return len(constants) + self._inputs + cell_of[one]

        for number in order:
            code, *given = self._steps[number]
            operands = [operand(one) for one in given]
            free.extend(cell_of[one] for one in ends.pop(number, ()))
            if not free:
                free.append(cells)
                cells += 1
            result = self._inputs + number
            cell_of[result] = free.pop()
            ends.setdefault(last[result], []).append(result)
            rows.append([code, cell_of[result], *operands])
        if len(constants) + self._inputs + cells > _MAX_OPERANDS:
            raise ConfigError(
                f"network: needs {len(constants) + self._inputs + cells} numbers, allowed with format c are "
                f"{_MAX_OPERANDS}: choose fewer flows or intervals"
            )
        return ScalarProgram(
            np.array(rows, np.int64).reshape(-1, 5),
            np.array([values[one] for one in constants], np.int64),
            self._inputs,
            cells,
            np.array([operand(one) for one in outputs.tolist()], np.int64),
        )
