# SPDX-License-Identifier: GPL-2.0-only
"""An experiment of a paper: runs, and the published numbers; conf/experiment/<paper>/<id>.yaml.

A file with ``like: ID`` runs what another one in its folder runs, where it gives none itself; of scenario, sweep and
radio it gives what differs. A claim with ``each_at: [...]`` is one for each of these points and each variant,
which its text may name as {at} and {variant}.
Many numbers stand in a CSV file beside it, see `bbrgym.papers.published_csv`.

    scenario --(variant's fields)--(sweep's fields)--(seed)--> runs -> quantities -> beside `published` and `claims`

A published number is compared with, never tuned to.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from bbrgym.errors import nearest
from bbrgym.papers.metrics import METRICS
from bbrgym.schema import FieldProblem, Float, List, Model, NotNegative, Positive, Whole, shown

Text = Annotated[str, Field(min_length=1)]


class VariantSettings(Model):
    """An entrant of an experiment."""

    cc: str = ""  # congestion control of the tuned flows. Default: the variant's name in the experiment
    tunables: dict[str, Float] = Field(default_factory=dict)  # that differ from the preset
    # fields of the scenario that differ, by path, e.g. ``link.queue.size_bdp``
    set: dict[str, Any] = Field(default_factory=dict)
    # fields that differ in worlds with a radio, see `BehindRadio`, by path; after the experiment's own
    behind_radio: dict[str, Any] = Field(default_factory=dict)
    world: str | None = None  # the only world that has it. Default: the worlds asked for


class ParameterSweep(Model):
    """Points that every variant runs at."""

    title: Text  # of the points, with their unit
    at: Annotated[List[Float], Field(min_length=1)]  # coordinate of each point, as published
    set: dict[str, List[Any]]  # fields of the scenario by path, with a value for each point

    @model_validator(mode="after")
    def _check(self) -> ParameterSweep:
        if list(self.at) != sorted(set(self.at)):
            raise FieldProblem("at", f"is {shown(list(self.at))}, expected ascending numbers, each once")
        _check_values("set", self.set, len(self.at))
        return self


def _check_values(field: str, values: Mapping[str, Sequence[Any]], points: int) -> None:
    for path, own in values.items():
        if len(own) != points:
            raise FieldProblem(f"{field}.{path}", f"has {len(own)} values, expected one for each of {points}")


class BehindRadio(Model):
    """Fields of the scenario in the worlds that have radios, in place of those that stand for one elsewhere."""

    # fields by path, e.g. ``link.last_hop``; null: the field's default
    set: Annotated[dict[str, Any], Field(min_length=1)]
    # fields by path, with a value for each point of the sweep
    sweep: dict[str, List[Any]] = Field(default_factory=dict)


class FlowMetric(Model):
    """A metric of all flows or of some."""

    metric: str  # name of one of `bbrgym.papers.metrics.METRICS`
    flow: str | None = None  # name of the flow or group of flows. Default: all flows
    over: str | None = None  # variant that the metric is divided by, seed by seed. Default: none

    @property
    def title(self) -> str:
        """Name of the metric with flow and denominator."""
        flow = f" of {self.flow}" if self.flow else ""
        return f"{self.metric}{flow}" + (f" / {self.over}'s" if self.over else "")

    def of(self, variant: str, at: float | None) -> Quantity:
        """Return the quantity of a variant at a point."""
        return Quantity(variant=variant, metric=self.metric, flow=self.flow, over=self.over, at=at)


class Quantity(FlowMetric):
    """The mean over seeds of a metric of ``variant``, at a point ``at`` of the sweep. Default: there is no sweep."""

    variant: str
    at: Float | None = None


class Published(Quantity):
    """A published number. In a file ``at`` and ``value`` may be lists: a number for each point."""

    value: Float  # in ``unit``
    unit: str  # of the metric
    source: Text  # where in the paper
    # lowest and highest value published. Default: none was
    spread: Annotated[List[Float], Field(min_length=2, max_length=2)] | None = None
    read_off_figure: Positive | None = None  # precision with which it was read off a figure. Default: it is printed
    rounding: NotNegative = 0.0  # half a unit of the last digit
    lowest: Float | None = None  # of the runs on a testbed that it is the mean of. Default: it is a paper's
    highest: Float | None = None
    model: Float | None = None  # another model's answer. Default: it has none
    cause: Text | None = None  # why it is not reached. Default: the experiment's

    @model_validator(mode="after")
    def _check(self) -> Published:
        if (self.lowest is None) != (self.highest is None):
            raise FieldProblem("highest" if self.highest is None else "lowest", "is missing, expected both or none")
        if self.spread is not None and self.spread[0] > self.spread[1]:
            raise FieldProblem("spread", f"is {shown(list(self.spread))}, expected low and high")
        return self

    @property
    def quantity(self) -> Quantity:
        """The published quantity."""
        return self.of(self.variant, self.at)

    @property
    def is_testbed(self) -> bool:
        """True if runs on a testbed gave the number, which then gets the verdicts of `verdict_on_testbed`."""
        return self.lowest is not None

    @property
    def bounds(self) -> tuple[float, float]:
        """Lowest and highest value published."""
        if self.lowest is not None and self.highest is not None:
            return self.lowest, self.highest
        return (self.value, self.value) if self.spread is None else (self.spread[0], self.spread[1])

    @property
    def precision(self) -> float:
        """Uncertainty of the published value."""
        return max(self.read_off_figure or 0.0, self.rounding)

    @property
    def origin(self) -> str:
        """The source; of a testbed's number with the range of its runs, of one read off a figure how exactly."""
        if self.is_testbed:
            model = "" if self.model is None else f", model {self.model:g}"
            return f"{self.source}, {self.bounds[0]:g} to {self.bounds[1]:g}{model}"
        if self.read_off_figure is None:
            return self.source
        unit = "" if self.unit in ("ratio", "count") else f" {self.unit}"
        return f"{self.source}, read off the figure to {self.precision:g}{unit}"


class Claim(Model):
    """A statement of the paper without a number: one quantity is below another, or below a bound."""

    text: Text  # statement in short
    less: Quantity | Float  # quantity or number that is said to be smaller
    than: Quantity | Float  # quantity or number that is said to be larger
    times: Float = 1.0  # factor of ``than``
    source: Text  # where in the paper. In a file the default is the experiment's figure
    cause: Text | None = None  # why it does not hold. Default: the experiment's

    @model_validator(mode="after")
    def _check(self) -> Claim:
        if not isinstance(self.less, Quantity) and not isinstance(self.than, Quantity):
            raise FieldProblem("than", "is a number as less is, expected a quantity in at least one of them")
        return self

    @property
    def quantities(self) -> list[Quantity]:
        """The measured sides."""
        return [side for side in (self.less, self.than) if isinstance(side, Quantity)]

    @property
    def has_bound(self) -> bool:
        """True if one side is a published number."""
        return len(self.quantities) == 1

    @property
    def variant(self) -> str | None:
        """The only variant of the claim's sides; None if there are two."""
        variants = {side.variant for side in self.quantities}
        return variants.pop() if len(variants) == 1 else None


def _variants(value: Any) -> Any:
    """Return settings by name for a list of names."""
    if isinstance(value, list | tuple) and all(isinstance(name, str) for name in value):
        if len(set(value)) < len(value):
            raise FieldProblem("", f"is {shown(list(value))}, expected each once")
        return {name: {} for name in value}
    return value


class Experiment(Model):
    """An experiment of a paper."""

    paper: Text  # name of the folder
    id: Text  # name of the file
    figure: Text  # the paper's own name of it, e.g. ``figure 13``
    title: Text  # what it shows
    notes: str = ""  # settings that the paper leaves open, and our readings of them
    scenario: dict[str, Any] = Field(default_factory=dict)  # fields of a scenario; tuned flows take the variants
    # a list of names, or settings by name
    variants: Annotated[dict[str, VariantSettings], BeforeValidator(_variants)] = Field(default_factory=dict)
    # the variants are readings of a set-up that the paper leaves open, each with all of the numbers and claims: the
    # experiment has the verdict of the best one, which is named
    readings: bool = False
    sweep: ParameterSweep | None = None  # points that every variant runs at. Default: there is one
    seeds: Annotated[Whole, Field(ge=1, le=1000)] = 5  # number of runs of each variant and point
    # between two rows of a flow in the time series, from which some metrics are taken
    interval_s: Annotated[Float, Field(ge=1e-2, le=60)] = 1.0
    published: List[Published] = ()  # numbers of the paper
    claims: List[Claim] = ()  # statements of the paper without numbers of their own
    # quantities in which every other variant is compared with the first one, seed by seed; the experiment is a
    # scenario of the open question that ``figure`` names
    compared: List[FlowMetric] = ()
    behind_radio: BehindRadio | None = None  # fields in worlds with a radio. Default: all worlds run the same scenario
    # file of the authors that replaces the link's trace where the option ``recordings`` names its folder
    recording: Text | None = None
    cause: Text | None = None  # why numbers are not reached. Default: unknown
    no_run: Text | None = None  # why there is no run. Default: there is one
    by_name_only: bool = False  # whether the option ``paper`` leaves it out, since it takes long

    @model_validator(mode="after")
    def _check(self) -> Experiment:
        if self.no_run is not None:
            return self
        for name in ("scenario", "variants"):
            if not getattr(self, name):
                raise FieldProblem(name, "is missing, expected it, or no_run with the reason")
        for path, quantity in self._paths():
            self._check_quantity(path, quantity)
        for index, one in enumerate(self.published):
            _check_unit(f"published[{index}].unit", one.unit, one.metric, is_ratio=one.over is not None)
        for index, compared in enumerate(self.compared):
            self._check_metric(f"compared[{index}]", compared.metric, compared.over)
        if self.behind_radio is not None:
            _check_values("behind_radio.sweep", self.behind_radio.sweep, len(self.points))
        return self

    def _paths(self) -> Iterator[tuple[str, Quantity]]:
        for index, published in enumerate(self.published):
            yield f"published[{index}]", published.quantity
        for index, claim in enumerate(self.claims):
            for side in ("less", "than"):
                quantity = getattr(claim, side)
                if isinstance(quantity, Quantity):
                    yield f"claims[{index}].{side}", quantity

    def _check_quantity(self, path: str, quantity: Quantity) -> None:
        if quantity.variant not in self.variants:
            problem = f"is {shown(quantity.variant)}; {nearest(quantity.variant, self.variants, 'variants')}"
            raise FieldProblem(f"{path}.variant", problem)
        self._check_metric(path, quantity.metric, quantity.over)
        self._check_point(f"{path}.at", quantity.at)

    def _check_metric(self, path: str, metric: str, over: str | None) -> None:
        if metric not in METRICS:
            raise FieldProblem(
                f"{path}.metric", f"is {shown(metric)}; {nearest(metric, METRICS, 'src/bbrgym/papers/metrics.py')}"
            )
        if over is not None and over not in self.variants:
            raise FieldProblem(f"{path}.over", f"is {shown(over)}; {nearest(over, self.variants, 'variants')}")

    def _check_point(self, path: str, at: float | None) -> None:
        points = (None,) if self.sweep is None else self.sweep.at
        if at not in points:
            raise FieldProblem(path, f"is {at}, expected one of {', '.join(map(str, points))}")

    # ---- parts ---------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """``<paper>/<id>``, as the option ``experiment`` takes it."""
        return f"{self.paper}/{self.id}"

    @property
    def points(self) -> tuple[float | None, ...]:
        """Points of the sweep; None is the only one without a sweep."""
        return (None,) if self.sweep is None else tuple(self.sweep.at)

    @property
    def is_testbed(self) -> bool:
        """True if some of the numbers were measured on a testbed."""
        return any(one.is_testbed for one in self.published)

    @property
    def compared_quantities(self) -> list[Quantity]:
        """Ratios of every other variant to the first one, of what is compared."""
        first, *others = self.variants or ("",)
        ratios = [one.model_copy(update={"over": first}) for one in self.compared]
        return [ratio.of(name, at) for ratio in ratios for name in others for at in self.points]

    def fields_of(
        self, variant: str, at: float | None, recordings: Path | None = None, *, has_radio: bool = False
    ) -> dict[str, Any]:
        """Return the fields of the scenario that a variant runs at a point.

        Args:
            variant: name in the experiment.
            at: point of the sweep; None without one.
            recordings: folder of the file that ``recording`` names. Default: the link's own trace.
            has_radio: whether the world can have the receivers behind a radio.

        Raises:
            FieldProblem: a path of ``set`` leads nowhere.
        """
        fields = copy.deepcopy(self.scenario)
        if self.recording is not None and recordings is not None:
            fields["link"]["trace_path"] = str(recordings / self.recording)
        points = list(self.points)
        fields["name"] = f"{self.paper}-{self.id}" + (f".{points.index(at)}" if self.sweep is not None else "")
        index, own, radio = points.index(at), self.variants[variant], self.behind_radio if has_radio else None
        changes = {"sweep.set": _at_point(self.sweep.set, index)} if self.sweep is not None else {}
        changes[f"variants.{variant}.set"] = own.set
        if radio is not None:
            changes["behind_radio.set"] = radio.set
            changes[f"variants.{variant}.behind_radio"] = own.behind_radio
            changes["behind_radio.sweep"] = _at_point(radio.sweep, index)
        for where, values in changes.items():
            for path, value in values.items():
                _set(fields, path, value, f"{where}.{path}")
        return fields


def _check_unit(path: str, unit: str, metric: str, *, is_ratio: bool) -> None:
    expected = "ratio" if is_ratio else METRICS[metric].unit
    if unit != expected:
        raise FieldProblem(path, f"is {shown(unit)}, expected {shown(expected)}, the unit of {metric}")


def _at_point(values: Mapping[str, Sequence[Any]], index: int) -> dict[str, Any]:
    return {path: of_points[index] for path, of_points in values.items()}


def _set(fields: dict[str, Any], path: str, value: Any, where: str) -> None:
    """Give the field at a path a value."""
    *parents, last = path.split(".")
    at: Any = fields
    for part in parents:
        at = _step(at, part, where)
    if isinstance(at, list):
        _step(at, last, where)
        at[int(last)] = value
    elif isinstance(at, dict):
        is_kind = isinstance(value, Mapping) and isinstance(at.get(last), Mapping) and "kind" not in value
        at[last] = {**at[last], **value} if is_kind else copy.deepcopy(value)
    else:
        raise FieldProblem(where, f"has {shown(at)} before {last!r}, expected a mapping or a list")


def _step(at: Any, part: str, where: str) -> Any:
    if isinstance(at, list) and part.isdigit() and int(part) < len(at):
        return at[int(part)]
    if isinstance(at, dict):
        return at.setdefault(part, {})
    raise FieldProblem(where, f"has no {part!r} in {shown(at)}, expected a path of the scenario")
