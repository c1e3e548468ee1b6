# SPDX-License-Identifier: GPL-2.0-only
"""Scenario distributions: scenarios with ranges in place of values; each seed draws one scenario.

A distribution is written like a scenario, with `variables:` beside the other fields. Any value in it may be a range:

    {uniform: [1, 5]}  {log_uniform: [1, 200]}  {integer: [1, 6]}  {choice: [a, b, c], weights: [3, 1, 1]}

A number in a range may be the name of a variable; `times: NAME` (or a number, or a list of these) multiplies the
drawn number, `low: ...` and `high: ...` bound it, `whole: true` rounds it. `{value: NAME, times: ...}` draws nothing.
The alternatives of a choice may hold ranges themselves. A flow with `number: ...` stands for that number of flows,
each drawn separately. `flows` may be a choice of lists of flows. A variable `{grid: [1, 2, 5]}` takes each value in
turn: as many seeds in a row as all grids together have cells run each cell once.

    variables: {shortest_rtt_ms: {log_uniform: [5, 100]}}
    flows: [{name: flow, number: {integer: [1, 6]}, rtt_ms: {log_uniform: [1, 10], times: shortest_rtt_ms}}]

Each number is drawn from its own stream, named by its place in the file: a change of one range leaves the draws of all
others unchanged.

A mix of scenarios and distributions is a distribution too: each seed draws one of them, then from it:

    mix: [wan_mix, found.yaml]
    weights: [3, 1]
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from bbrgym.errors import ConfigError, ScenarioError, nearest
from bbrgym.scenario.bounds import BOUNDS
from bbrgym.scenario.files import Source, is_scenario_file, is_sequence, parse_scenario, read_scenario
from bbrgym.scenario.model import Scenario
from bbrgym.scenario.shipped import MIX, VARIABLES, is_drawn, role_of
from bbrgym.schema import FieldProblem, is_number, plain, shown

Split: TypeAlias = Literal["train", "validation", "test"]

SPLITS: Mapping[Split, range] = {
    "train": range(2**31),
    "validation": range(2**31, 2**31 + 1_000_000),
    "test": range(2**32, 2**32 + 1_000_000),
}
"""Seeds of each split. A reset without a seed draws one from train; no choice may depend on test."""

MAX_PARTS = 10_000
MAX_MIX_DEPTH = 16
_SIGNIFICANT_DIGITS = 6  # of a drawn number, so that people can read it
_KINDS = ("uniform", "log_uniform", "integer", "choice", "grid", "value")
_MODIFIERS = ("times", "low", "high", "whole")  # in this order


def split_seeds(split: str, count: int, first: int = 0) -> range:
    """Return the seeds of ``count`` draws of a split, from number ``first`` on.

    Raises:
        ConfigError: there is no such split, or it has fewer draws.
    """
    if split not in get_args(Split):
        raise ConfigError(f"split: is {shown(split)}; {nearest(str(split), get_args(Split))}")
    seeds = next(seeds for name, seeds in SPLITS.items() if name == split)
    if first < 0 or count < 1 or first + count > len(seeds):
        raise ConfigError(f"draws: {count} from number {first} on, {split} has numbers 0 to {len(seeds) - 1}")
    return seeds[first : first + count]


class Distribution:
    """A function from seeds to scenarios: ``distribution(seed)`` is the same scenario on every machine.

    Args:
        fields: as written, see the module.

    Attributes:
        name: of the distribution; a draw is named ``name-seed``.
        fields: as written.
        max_tuned: largest number of tuned flows of a draw.
        max_flows: largest number of flows of a draw.
        grid: values of each variable that is a grid, by its name.

    Raises:
        ScenarioError: a field is wrong, as far as one draw shows it.

    Example:
        >>> import bbrgym
        >>> rates = bbrgym.Distribution(
        ...     {
        ...         "name": "rates",
        ...         "variables": {"rate": {"log_uniform": [1, 100]}},
        ...         "duration_s": 5,
        ...         "link": {"rate_mbps": {"value": "rate"}, "queue": {"kind": "droptail", "size_bdp": 2}},
        ...         "flows": [{"name": "flow", "rtt_ms": {"uniform": [10, 80]}}],
        ...     }
        ... )
        >>> rates(1) == rates(1), rates(1) == rates(2), 1 <= rates(3).link.rate_mbps <= 100
        (True, False, True)
    """

    def __init__(self, fields: Mapping[str, Any], *, _within: _Mixes | None = None) -> None:
        template = dict(plain(fields))
        self.fields: Mapping[str, Any] = dict(template)
        self.name = str(template.pop("name", "unnamed"))
        variables = template.pop(VARIABLES, None) or {}
        self._parts: tuple[Scenario | Distribution, ...] = ()
        self.grid: Mapping[str, Sequence[Any]] = {}
        if MIX in template:
            self._mix(template, _Mixes() if _within is None else _within)
            return
        flows = template.get("flows")
        if not isinstance(variables, Mapping):
            raise self._problem(VARIABLES, f"is {shown(variables)}, expected names and what each is drawn from")
        self._variables = variables
        self._template = template
        grids = {str(name): spec["grid"] for name, spec in variables.items() if is_range(spec) and "grid" in spec}
        for name, values in grids.items():
            if not is_sequence(values) or not values:
                raise self._problem(f"{VARIABLES}.{name}.grid", f"is {shown(values)}, expected a list of values")
        self.grid = grids
        lists = list(self._lists(flows))
        self.max_flows = max(sum(most for most, _ in one) for one in lists)
        if self.max_flows > BOUNDS["flows"].high:
            raise self._problem("flows", f"are up to {self.max_flows}, expected at most {BOUNDS['flows'].high:.0f}")
        self.max_tuned = max(sum(most for most, role in one if role == "tuned") for one in lists)
        self(SPLITS["train"][0])  # reports errors when the distribution is loaded, as far as one draw shows them

    def __call__(self, seed: int) -> Scenario:
        """Draw the scenario of a seed.

        Raises:
            ScenarioError: a range is wrong, or the drawn fields are not a scenario.
        """
        if self._parts:
            part = self._parts[_index(_uniform_of(seed, MIX), self._weights)]
            return part(seed) if isinstance(part, Distribution) else part
        places = {
            f"{VARIABLES}.{name}": (self.grid[name].index(value) + 0.5) / len(self.grid[name])
            for name, value in self.cell(seed).items()
        }
        return self.drawn(f"{self.name}-{seed}", lambda place: places.get(place) or _uniform_of(seed, place))

    def cell(self, seed: int) -> dict[str, Any]:
        """Return the value of each grid in the draw of a seed, by the variable's name."""
        cell = {}
        for name, values in self.grid.items():
            seed, at = divmod(seed, len(values))
            cell[name] = values[at]
        return cell

    def drawn(self, name: str, uniform: Callable[[str], float]) -> Scenario:
        """Return the scenario of given numbers.

        Args:
            name: of the scenario.
            uniform: the number from [0, 1) that stands for the place of a range; called for those places alone that
                the numbers before leave.

        Raises:
            ScenarioError: a range is wrong, the drawn fields are not a scenario, or this is a mix.
        """
        if self._parts:
            raise self._problem(MIX, "is given, expected one distribution")
        drawing = _Drawing(uniform, {})
        try:
            for variable, spec in self._variables.items():
                drawing.variables[str(variable)] = drawing.value(spec, f"{VARIABLES}.{variable}")
            fields = {key: drawing.value(spec, str(key)) for key, spec in self._template.items() if key != "flows"}
            entries, path = drawing.option(self._template["flows"], "flows")
            fields["flows"] = [
                flow for index, entry in enumerate(entries) for flow in _drawn_flows(drawing, entry, f"{path}[{index}]")
            ]
        except FieldProblem as error:
            raise self._problem(error.path, error.problem) from None
        return parse_scenario({"name": name, **fields})

    def __repr__(self) -> str:
        return f"<Distribution {self.name}, up to {self.max_tuned} tuned flows of {self.max_flows}>"

    def _lists(self, flows: Any) -> Iterator[list[tuple[int, Any]]]:
        """Yield each list of flows that may be drawn: of each entry the largest number of flows, and their role."""
        lists = {"flows": flows}
        if isinstance(flows, Mapping) and set(flows) <= {"choice", "weights"} and is_sequence(flows.get("choice")):
            lists = {f"flows.choice[{index}]": option for index, option in enumerate(flows["choice"])} or lists
        for path, entries in lists.items():
            if not isinstance(entries, list | tuple) or not all(isinstance(entry, Mapping) for entry in entries):
                raise self._problem(path, f"is {shown(entries)}, expected a list of flows, or a choice of such lists")
            yield [(self._most(f"{path}[{at}]", entry), role_of(entry)) for at, entry in enumerate(entries)]

    def _most(self, path: str, flow: Mapping[str, Any]) -> int:
        """Return the largest number of flows that an entry stands for."""
        number = flow.get("number", 1)
        if isinstance(number, Mapping) and "value" in number:
            number = self._variables.get(str(number["value"]))
        if isinstance(number, Mapping):
            number = next((number[kind] for kind in ("integer", "choice", "grid") if kind in number), number)
        numbers = list(number) if isinstance(number, list | tuple) else [number]
        if not numbers or not all(isinstance(one, int) and not isinstance(one, bool) and one >= 0 for one in numbers):
            raise self._problem(
                f"{path}.number", f"is {shown(number)}, expected a whole number, integer or choice from 0 on"
            )
        count = flow.get("count", 1)
        if isinstance(count, bool) or not isinstance(count, int):
            raise self._problem(f"{path}.count", f"is {shown(count)}, expected a whole number")
        return int(max(numbers)) * count

    def _mix(self, template: Mapping[str, Any], within: _Mixes) -> None:
        """Take the parts of a mix."""
        sources, others = template[MIX], sorted(set(template) - {MIX, "weights"})
        if not is_sequence(sources) or not sources:
            raise self._problem(MIX, f"is {shown(sources)}, expected a list of scenarios and distributions")
        if others or self.fields.get(VARIABLES):
            raise self._problem((others or [VARIABLES])[0], "is given beside mix, expected weights alone")
        weights = list(template.get("weights", [1] * len(sources)))
        are_numbers = all(is_number(one) and 0 <= one < math.inf for one in weights)
        if len(weights) != len(sources) or not are_numbers or sum(weights) <= 0:
            raise self._problem("weights", f"is {shown(weights)}, expected {len(sources)} numbers from 0, one above it")
        parts: list[tuple[Scenario | Distribution, float]] = []
        for source, weight in zip(sources, weights, strict=True):
            part = within.part(source, self)
            if isinstance(part, Distribution) and part._parts:  # the parts of a mix within: one number chooses
                whole = sum(part._weights)
                parts += [(one, weight * own / whole) for one, own in zip(part._parts, part._weights, strict=True)]
            else:
                parts.append((part, weight))
            if len(parts) > MAX_PARTS:
                raise self._problem(MIX, f"has more than {MAX_PARTS} parts, those of mixes in it included")
        self._parts = tuple(part for part, _ in parts)
        self._weights: Sequence[float] = [weight for _, weight in parts]
        self.max_tuned = max(_tuned_of(part) for part in self._parts)
        self.max_flows = max(
            part.max_flows if isinstance(part, Distribution) else len(part.resolved().flows) for part in self._parts
        )

    def _problem(self, path: str, problem: str) -> ScenarioError:
        return ScenarioError(path, problem, self.name)


class _Mixes:
    """The nested mixes that are being read, and the files read so far, each once."""

    def __init__(self, *outermost: Any) -> None:
        self._names = [_name_of(source) for source in outermost]  # empty of a mapping
        self._known: dict[str, Scenario | Distribution] = {}

    def part(self, source: Any, of: Distribution) -> Scenario | Distribution:
        """Return a part of a mix.

        Raises:
            ScenarioError: it cannot be read, is the mix itself or holds it, or mixes are nested too deeply.
        """
        if isinstance(source, Distribution | Scenario):
            return source
        name = _name_of(source)
        if name in self._known:
            return self._known[name]
        if name and name in self._names:
            raise of._problem(MIX, f"names {shown(str(source))}, which is or holds this mix")
        if len(self._names) >= MAX_MIX_DEPTH:
            raise of._problem(MIX, f"holds mixes nested deeper than {MAX_MIX_DEPTH}")
        self._names.append(name)
        fields = read_scenario(source)
        part = Distribution(fields, _within=self) if is_drawn(fields) else parse_scenario(fields)
        self._names.pop()
        if name:
            self._known[name] = part
        return part


def _name_of(source: Any) -> str:
    """Return a text that is the same for the same file or shipped name; empty for anything else."""
    if isinstance(source, PathLike) or (isinstance(source, str) and is_scenario_file(source)):
        return str(Path(source).absolute())
    return source if isinstance(source, str) else ""


def load_distribution(source: Source | Distribution) -> Distribution:
    """Load a distribution by shipped name, from a file or from a mapping.

    Raises:
        ScenarioError: it cannot be read, or is not a distribution.

    Example:
        >>> import bbrgym
        >>> bbrgym.load_distribution("wan_mix")(7).name
        'wan_mix-7'
    """
    if isinstance(source, Distribution):
        return source
    if isinstance(source, Scenario):
        raise ScenarioError("", "is a scenario, expected a distribution", source.name)
    fields = read_scenario(source)
    if not is_drawn(fields):
        raise ScenarioError(
            "", f"has no {VARIABLES} and is not a {MIX}, so it is not a distribution", str(fields.get("name", ""))
        )
    return Distribution(fields, _within=_Mixes(source))


def is_distribution(source: Any) -> bool:
    """Return whether a source is a distribution: a loaded one, a name, a file or fields."""
    if isinstance(source, Distribution | Scenario) or callable(source):
        return isinstance(source, Distribution)
    return is_drawn(read_scenario(source))


def is_range(value: Any) -> bool:
    """Return whether a value of a distribution's file is a range."""
    return isinstance(value, Mapping) and any(kind in value for kind in _KINDS)


# ---- drawing ------------------------------------------------------------------------------------------


def _uniform_of(seed: int, place: str) -> float:
    """Return a number in [0, 1) from the stream of a place: 53 bits of a hash, the same on every machine."""
    digest = hashlib.blake2b(f"{seed}/{place}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "little") >> 11) * 2.0**-53


def _index(part: float, shares: Sequence[float]) -> int:
    """Return the index of the share in which a part of the shares' sum lies."""
    left = part * sum(shares)
    index = 0
    while left >= shares[index] and index < len(shares) - 1:
        left -= shares[index]
        index += 1
    return index


def _tuned_of(part: Scenario | Distribution) -> int:
    if isinstance(part, Distribution):
        return part.max_tuned
    return sum(flow.role == "tuned" for flow in part.resolved().flows)


@dataclass(frozen=True)
class _Drawing:
    """A draw: random numbers by place, and the variables drawn so far."""

    uniform: Callable[[str], float]
    variables: dict[str, Any]

    def value(self, spec: Any, path: str) -> Any:
        """Return a value of the file with every range drawn."""
        if isinstance(spec, Mapping):
            if is_range(spec):
                return self._drawn(spec, path)
            return {key: self.value(one, f"{path}.{key}") for key, one in spec.items()}
        if isinstance(spec, list | tuple):
            return [self.value(one, f"{path}[{index}]") for index, one in enumerate(spec)]
        return spec

    def _drawn(self, spec: Mapping[str, Any], path: str) -> Any:
        kinds = [kind for kind in _KINDS if kind in spec]
        unknown = [key for key in spec if key not in (*_KINDS, *_MODIFIERS, "weights")]
        if len(kinds) != 1 or unknown or ("weights" in spec and kinds != ["choice"]):
            raise FieldProblem(path, f"is {shown(dict(spec))}, expected one of {', '.join(_KINDS)} and its options")
        drawn = self._of_kind(kinds[0], spec, path)
        modifiers = [key for key in _MODIFIERS if key in spec]
        if not modifiers:
            return drawn
        if isinstance(drawn, bool) or not isinstance(drawn, int | float):
            raise FieldProblem(path, f"draws {shown(drawn)}, expected a number beside {', '.join(modifiers)}")
        factors = spec.get("times", [])
        for factor in factors if isinstance(factors, list | tuple) else [factors]:
            drawn = drawn * self._number(factor, f"{path}.times")
        if "low" in spec:
            drawn = max(drawn, self._number(spec["low"], f"{path}.low"))
        if "high" in spec:
            drawn = min(drawn, self._number(spec["high"], f"{path}.high"))
        return round(drawn) if spec.get("whole") else _readable(drawn)

    def _of_kind(self, kind: str, spec: Mapping[str, Any], path: str) -> Any:
        if kind == "value":
            variable = self.variables.get(str(spec["value"]))
            return variable if isinstance(variable, str) else self._number(spec["value"], f"{path}.value")
        if kind == "choice":
            return self._chosen(spec, path)
        if kind == "grid":
            if path.split(".")[:-1] != [VARIABLES]:
                raise FieldProblem(path, f"is {shown(dict(spec))}, expected a grid as a variable alone")
            return spec["grid"][int(self.uniform(path) * len(spec["grid"]))]
        bounds = spec[kind]
        if not isinstance(bounds, list | tuple) or len(bounds) != 2:
            raise FieldProblem(f"{path}.{kind}", f"is {shown(bounds)}, expected two numbers")
        low, high = (self._number(bound, f"{path}.{kind}[{index}]") for index, bound in enumerate(bounds))
        if not low <= high or (kind == "log_uniform" and low <= 0):
            least = " above 0" if kind == "log_uniform" else ""
            raise FieldProblem(f"{path}.{kind}", f"is [{low:g}, {high:g}], expected numbers{least} in ascending order")
        part = self.uniform(path)
        if kind == "integer":
            return int(low) + int(part * (int(high) - int(low) + 1))
        return _readable(low * math.pow(high / low, part) if kind == "log_uniform" else low + part * (high - low))

    def _chosen(self, spec: Mapping[str, Any], path: str) -> Any:
        return self.value(*self.option(spec, path))

    def option(self, spec: Any, path: str) -> tuple[Any, str]:
        """Return the alternative of a choice, ranges in it not drawn yet, and its path; all else unchanged."""
        if not is_range(spec):
            return spec, path
        options = spec["choice"]
        weights = spec.get("weights", [1] * len(options) if isinstance(options, Sequence) else [])
        if not isinstance(options, list | tuple) or not options or len(options) != len(weights):
            raise FieldProblem(path, f"is {shown(dict(spec))}, expected a list of options, and as many weights")
        shares = [self._number(weight, f"{path}.weights[{index}]") for index, weight in enumerate(weights)]
        if min(shares) < 0 or sum(shares) <= 0:
            raise FieldProblem(f"{path}.weights", f"is {shown(weights)}, expected numbers from 0, one above it")
        index = _index(self.uniform(path), shares)
        return options[index], f"{path}.choice[{index}]"

    def _number(self, number: Any, path: str) -> float:
        """Return a number, or the variable of that name."""
        named = self.variables.get(number) if isinstance(number, str) else number
        if isinstance(named, bool) or not isinstance(named, int | float) or not math.isfinite(named):
            known = ", ".join(self.variables) or "none"
            raise FieldProblem(path, f"is {shown(number)}, expected a number or a variable's name ({known})")
        return named


def _drawn_flows(drawing: _Drawing, entry: Mapping[str, Any], path: str) -> list[dict[str, Any]]:
    """Return the flows that an entry stands for; several get a number behind the name."""
    number = drawing.value(entry.get("number", 1), f"{path}.number")
    if not isinstance(number, int) or number > BOUNDS["flows"].high:
        raise FieldProblem(
            f"{path}.number", f"is {shown(number)}, expected a whole number up to {BOUNDS['flows'].high:.0f}"
        )
    each = {key: spec for key, spec in entry.items() if key != "number"}
    flows = []
    for index in range(number):
        flow = {key: drawing.value(spec, f"{path}#{index}.{key}") for key, spec in each.items()}
        flows.append({**flow, "name": f"{flow.get('name')}-{index}"} if number > 1 else flow)
    return flows


def _readable(number: float) -> float:
    return float(f"{number:.{_SIGNIFICANT_DIGITS}g}")
