# SPDX-License-Identifier: GPL-2.0-only
"""The scenario: a bottleneck link or several, the flows that share them, and a duration.

People write a scenario (YAML, a mapping), so it has defaults, counts and sizes in BDP. A world reads its resolved
form, in which each of these is a plain value. Units are in the names; a rate is of IP
packets (payload + 40 bytes) on the link and of payload in an application.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeVar, cast

from pydantic import Field, PrivateAttr, SerializerFunctionWrapHandler, model_serializer, model_validator

from bbrgym.errors import ConfigError, nearest
from bbrgym.scenario.bounds import BOUNDS, Name, Seconds, is_before, within
from bbrgym.scenario.checks import ScenarioCheck
from bbrgym.scenario.flow import App, Bulk, Flow, ShortFlow
from bbrgym.scenario.link import (
    LTE_QUEUED_BYTES,
    WIFI_PACKET_BYTES,
    DelayTrace,
    Link,
    LteHop,
    ReverseLink,
    Trace,
    WifiHop,
)
from bbrgym.scenario.queue import Cake, CoDel, Pie, Queue
from bbrgym.scenario.stack import SenderStack
from bbrgym.scenario.traces import read_delays, read_trace
from bbrgym.schema import FieldProblem, Float, List, Model, Whole

HEADER_BYTES = 40  # IPv4 and TCP without options, beside the payload of each packet

MAX_WARMUP_DEFAULT_S = 30.0

AnyLink = TypeVar("AnyLink", Link, ReverseLink)

_SOME_LINK = Link(rate_mbps=1.0, queue=Queue(size_packets=1))


class Scenario(Model):
    """A bottleneck link and the flows that share the link for a time; the input of a world.

    Attributes:
        name: shown in records.
        duration_s: simulated time.
        warmup_s: time from which summaries measure. Default: a quarter of the duration, at most 30 s.
        mss_bytes: payload of a full packet.
        stack: of every sender: a preset's name or a mapping. ``ns3`` is without what ns-3's own sockets lack, so
            that worlds can be compared like for like.
        link: bottleneck; of several links the first one.
        links: several links by name, in place of ``link``, over which each flow's ``path`` leads; without ``acks``,
            ``last_hop`` and ``reverse``.
        flows: that share the link.
        checks: bounds on what a run measures, which an evaluation reports as passed or failed.

    Example:
        >>> import bbrgym
        >>> scenario = bbrgym.load_scenario("steady")
        >>> scenario.duration_s, [flow.rtt_ms for flow in scenario.flows]
        (30.0, [40.0])
        >>> longer = bbrgym.load_scenario({**scenario.model_dump(exclude_none=True), "duration_s": 60})
    """

    name: Name = "unnamed"
    duration_s: Annotated[Float, within("duration_s")]
    warmup_s: Seconds | None = None
    mss_bytes: Annotated[Whole, within("mss_bytes")] = 1448
    stack: SenderStack = SenderStack()
    link: Link
    links: dict[Name, Link] = Field(default_factory=dict)
    flows: List[Flow]
    checks: List[ScenarioCheck] = ()

    _resolved: Scenario | None = PrivateAttr(default=None)

    @model_validator(mode="before")
    @classmethod
    def _with_bottleneck(cls, fields: Any) -> Any:
        """Put a link in place of the first of several, which is not known before they are checked."""
        if isinstance(fields, Mapping) and fields.get("links"):
            if fields.get("link") is not None:
                raise FieldProblem("links", "is given beside link, expected one of them")
            return {**fields, "link": _SOME_LINK}
        return fields

    @model_validator(mode="after")
    def _check(self) -> Scenario:
        self._settle_links()
        if self.warmup_s is not None and not is_before(self.warmup_s, self.duration_s):
            raise FieldProblem("warmup_s", f"is {self.warmup_s}, expected less than duration_s = {self.duration_s}")
        total = sum(flow.count for flow in self.flows)
        least, most, _ = BOUNDS["flows"]
        if not least <= total <= most:
            raise FieldProblem("flows", f"has {total} flows, expected {least:.0f} to {most:.0f}")
        for index, flow in enumerate(self.flows):
            if not is_before(flow.start_s, self.duration_s):
                raise FieldProblem(
                    f"flows[{index}].start_s", f"is {flow.start_s}, expected less than duration_s = {self.duration_s}"
                )
            self._check_path(index, flow)
            if flow.direction == "reverse" and self.link.reverse is None:
                raise FieldProblem(f"flows[{index}].direction", "is 'reverse', expected 'forward' without link.reverse")
            if flow.direction == "reverse" and (field := self.link.reordering_field):
                raise FieldProblem(
                    f"flows[{index}].direction",
                    f"is 'reverse', expected 'forward' with link.{field}, which would reorder its ACKs",
                )
        crossed = {name for flow in self.flows for name in (*flow.path, *flow.ack_path)}
        unused = [name for name in self.links if name not in crossed]
        if unused:
            raise FieldProblem(
                f"links.{unused[0]}", "is crossed by no flow, expected its name in some path or ack_path"
            )
        self._resolved = _resolve(self)
        names = [flow.name for flow in self._resolved.flows]
        for index, check in enumerate(self.checks):
            if not any(map(check.covers, names)):
                entries = [flow.name for flow in self.flows]
                raise FieldProblem(
                    f"checks[{index}].flow", f"is {check.flow!r}; {nearest(str(check.flow), entries, 'flows')}"
                )
        return self

    def _settle_links(self) -> None:
        """Make the first of several links the bottleneck; refuse what they cannot have."""
        if not self.links:
            return
        if len(self.links) > BOUNDS["links"].high:
            raise FieldProblem("links", f"has {len(self.links)} links, expected at most {BOUNDS['links'].high:.0f}")
        for name, link in self.links.items():
            for field in ("acks", "last_hop", "reverse"):
                if getattr(link, field) != Link.model_fields[field].default:
                    raise FieldProblem(f"links.{name}.{field}", "is given, expected none in links, but only in link")
        self.__dict__["link"] = next(iter(self.links.values()))

    def _check_path(self, index: int, flow: Flow) -> None:
        """Refuse a way that does not exist, or takes longer than the flow's round trip."""
        for field in ("path", "ack_path"):
            names, path = getattr(flow, field), f"flows[{index}].{field}"
            if names and not self.links:
                raise FieldProblem(path, f"is {list(names)}, expected none without links")
            if self.links and not names and field == "path":
                raise FieldProblem(path, f"is empty, expected some of the links: {', '.join(self.links)}")
            for name in names:
                if name not in self.links:
                    raise FieldProblem(path, f"names {name!r}; {nearest(name, self.links, 'links')}")
                if (flow.path + flow.ack_path).count(name) > 1:
                    raise FieldProblem(path, f"names {name!r} twice, expected each link once, ack_path included")
                if field == "ack_path" and (reordering := self.links[name].reordering_field):
                    raise FieldProblem(path, f"names {name!r}, whose {reordering} would reorder its ACKs")
        links = self.all_links()
        ways = [flow.path, flow.ack_path] if self.links else [[name] for name in links]
        for way in ways:
            delay_ms = sum(links[name].delay_ms for name in way)
            if flow.rtt_ms < 2 * delay_ms:
                twice = " + ".join(f"{self._field_of(name)}.delay_ms" for name in way)
                raise FieldProblem(
                    f"flows[{index}].rtt_ms", f"is {flow.rtt_ms}, expected at least twice {twice} = {delay_ms}"
                )

    def all_links(self) -> dict[str, Link | ReverseLink]:
        """Return the links by name, the first one is the bottleneck of `World.link_stats`; alone it is ``link``."""
        if self.links:
            return dict(self.links)
        return {"link": self.link} | ({} if self.link.reverse is None else {"link.reverse": self.link.reverse})

    def path_of(self, flow: Flow) -> tuple[str, ...]:
        """Return the names of the links that the data of a flow cross, in order."""
        return flow.path or (("link.reverse",) if flow.direction == "reverse" else ("link",))

    def ack_path_of(self, flow: Flow) -> tuple[str, ...]:
        """Return the names of the links that the ACKs of a flow cross, in order."""
        if self.links or self.link.reverse is None:
            return flow.ack_path
        return ("link",) if flow.direction == "reverse" else ("link.reverse",)

    def _field_of(self, link: str) -> str:
        return f"links.{link}" if self.links else link

    @model_serializer(mode="wrap")
    def _as_written(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields: dict[str, Any] = write(self)
        if self.links:
            fields.pop("link", None)
        return fields

    def resolved(self) -> Scenario:
        """Return the scenario with plain values only, for worlds."""
        return self if self._resolved is None else self._resolved

    def with_flows(self, change: Callable[[Flow], Flow]) -> Scenario:
        """Return the scenario with changed flows; only ``cc`` and ``tunables`` may change, already checked."""
        changed = self.model_copy(update={"flows": tuple(map(change, self.flows))})
        changed._resolved = None if self._resolved is None else self._resolved.with_flows(change)
        return changed

    def resolved_json(self) -> str:
        """Return the resolved form as JSON; the same scenario gives the same text."""
        resolved = self.resolved()
        without: Any = {"link": {"trace": True, "reverse": {"trace"}}, "links": {"__all__": {"trace"}}}
        plain = resolved.model_dump(mode="json", exclude=without)
        written = list(plain["links"].values()) or [plain["link"]]
        for fields in list(written):
            reverse = fields.pop("reverse")
            if reverse is not None:
                fields["reverse"] = reverse
                written.append(reverse)
        for link, fields in zip(resolved.all_links().values(), written, strict=True):
            fields["trace"] = None if link.trace is None else link.trace.compact()
            del fields["trace_path"], fields["queue"]["size_bdp"], fields["queue"]["bdp_rtt_ms"]
            for part, field, usual in (("loss", "unit", "packet"), ("queue", "pie", None), ("queue", "cake", None)):
                if fields[part].get(field) == usual:  # only where it says something, as reverse
                    fields[part].pop(field, None)
            if link.delay_trace is None:
                del fields["delay_trace"]
            else:
                del fields["delay_trace"]["path"]
            if not fields.get("reorder", True):
                del fields["reorder"]
        links = plain.pop("links")
        if links:
            plain["links"] = [{"name": name, **fields} for name, fields in links.items()]
        del plain["stack"], plain["checks"]
        for flow in plain["flows"]:
            del flow["count"]
            for field, default in (("direction", "forward"), ("quic", None), ("path", []), ("ack_path", [])):
                if flow[field] == default:  # only where it says something, as reverse
                    del flow[field]
            if flow["app"].get("read_mbps") is None:
                flow["app"].pop("read_mbps", None)
        return json.dumps(plain, allow_nan=False)


def _resolve(scenario: Scenario) -> Scenario:
    links = {name: _resolve_link(scenario, link, f"links.{name}") for name, link in scenario.links.items()}
    link = next(iter(links.values()), None) or _resolve_link(scenario, scenario.link, "link")
    if link.reverse is not None:
        link = link.model_copy(update={"reverse": _resolve_link(scenario, link.reverse, "link.reverse")})
    warmup_s = scenario.warmup_s
    if warmup_s is None:
        warmup_s = min(scenario.duration_s / 4, MAX_WARMUP_DEFAULT_S)
    return scenario.model_copy(update={"warmup_s": warmup_s, "link": link, "links": links, "flows": _expand(scenario)})


def _longest_rtt_ms(scenario: Scenario, link: str) -> float:
    """Return that of the flows on one of several links; of all on a link alone."""
    return max(flow.rtt_ms for flow in scenario.flows if not scenario.links or link in (*flow.path, *flow.ack_path))


def _resolve_link(scenario: Scenario, link: AnyLink, path: str) -> AnyLink:
    moving = {"delay_trace": _delay_trace(link.delay_trace, path)} if link.delay_trace else {}
    link = link.model_copy(update={"trace": _trace(link, path), "trace_path": None, **moving})
    rate_mbps = link.mean_rate_mbps
    rtt_ms = _longest_rtt_ms(scenario, path.removeprefix("links.")) + (
        link.delay_trace.mean_ms if link.delay_trace else 0.0
    )
    fastest_mbps = max([rate_mbps, *(change.rate_mbps or 0.0 for change in link.changes)])
    if _bdp_bytes(fastest_mbps, rtt_ms) > BOUNDS["bytes"].high:
        raise FieldProblem(
            path,
            f"{fastest_mbps:g} Mbit/s times an RTT of {rtt_ms:g} ms is {_bdp_bytes(fastest_mbps, rtt_ms):.3g} bytes "
            f"in flight, expected at most {BOUNDS['bytes'].high:.0f}",
        )
    packet_bytes = scenario.mss_bytes + HEADER_BYTES
    link = link.model_copy(update={"queue": _resolve_queue(link.queue, path, packet_bytes, rate_mbps, rtt_ms)})
    if isinstance(link, Link):
        _check_policer_and_hop(link, path, packet_bytes)
    _check_carries_packets(link, path, scenario.duration_s)
    return link


def _trace(link: Link | ReverseLink, path: str) -> Trace | None:
    if link.trace_path is None:
        return link.trace
    try:
        read = read_trace(link.trace_path)
    except ConfigError as error:
        raise FieldProblem(f"{path}.trace_path", str(error)) from error
    return Trace.model_construct(
        times_ms=cast("tuple[float, ...]", read.times_ms),  # which the field's validator makes of a list as well
        counts=(),
        period_ms=float(read.period_ms),
        opportunity_bytes=read.opportunity_bytes,
    )


def _delay_trace(trace: DelayTrace, path: str) -> DelayTrace:
    if trace.path is None:
        return trace
    try:
        delays_ms = read_delays(trace.path)
    except ConfigError as error:
        raise FieldProblem(f"{path}.delay_trace.path", str(error)) from error
    return DelayTrace(delays_ms=delays_ms, step_ms=trace.step_ms)


def _check_policer_and_hop(link: Link, path: str, packet_bytes: int) -> None:
    """Refuse a policer or a radio through which no full packet can pass."""
    if link.policer is not None and link.policer.burst_bytes < packet_bytes:
        raise FieldProblem(
            f"{path}.policer.burst_bytes",
            f"is {link.policer.burst_bytes}, expected at least one packet of {packet_bytes} bytes",
        )
    if isinstance(link.last_hop, WifiHop) and packet_bytes > WIFI_PACKET_BYTES:
        raise FieldProblem(
            "mss_bytes",
            f"is {packet_bytes - HEADER_BYTES}, expected at most {WIFI_PACKET_BYTES - HEADER_BYTES} with a wifi "
            f"last_hop, whose frames hold packets of {WIFI_PACKET_BYTES} bytes",
        )
    if isinstance(link.last_hop, LteHop) and link.last_hop.queue_packets * LTE_QUEUED_BYTES < packet_bytes:
        raise FieldProblem(
            "link.last_hop.queue_packets",
            f"is {link.last_hop.queue_packets}, which holds {link.last_hop.queue_packets * LTE_QUEUED_BYTES} bytes, "
            f"expected at least one packet of {packet_bytes} bytes",
        )


def _check_carries_packets(link: Link | ReverseLink, path: str, duration_s: float) -> None:
    """Refuse a link that carries nothing."""
    if link.trace is not None:
        first_ms = next((time_ms for time_ms in link.trace.times_ms if time_ms > 0), link.trace.period_ms)
        if first_ms > duration_s * 1e3:
            raise FieldProblem(
                f"{path}.trace",
                f"carries nothing before {first_ms / 1e3:g} s, expected a time up to duration_s = {duration_s}",
            )
    elif not _has_rate(link, duration_s):
        raise FieldProblem(f"{path}.changes", "leave the rate at 0 from start to end, expected a rate at some time")


def _has_rate(link: Link | ReverseLink, duration_s: float) -> bool:
    """Return whether the rate is above 0 at some time."""
    steps = [(0.0, link.rate_mbps), *((change.at_s, change.rate_mbps) for change in link.changes)]
    steps = [(at_s, rate_mbps) for at_s, rate_mbps in steps if rate_mbps is not None and is_before(at_s, duration_s)]
    ends_s = [*(at_s for at_s, _ in steps[1:]), duration_s]
    return any(rate and is_before(at_s, end_s) for (at_s, rate), end_s in zip(steps, ends_s, strict=True))


def _bdp_bytes(rate_mbps: float, rtt_ms: float) -> float:
    return rate_mbps * 125.0 * rtt_ms


def _resolve_queue(queue: Queue, path: str, packet_bytes: int, rate_mbps: float, longest_rtt_ms: float) -> Queue:
    size_bytes = queue.size_bytes
    if queue.size_bdp is not None:
        rtt_ms = longest_rtt_ms if queue.bdp_rtt_ms is None else queue.bdp_rtt_ms
        size_bytes = round(queue.size_bdp * _bdp_bytes(rate_mbps, rtt_ms))
    capacity_bytes = size_bytes if size_bytes is not None else (queue.size_packets or 0) * packet_bytes
    if not packet_bytes <= capacity_bytes <= BOUNDS["bytes"].high:
        size = "size_packets" if size_bytes is None else "size_bytes" if queue.size_bdp is None else "size_bdp"
        raise FieldProblem(
            f"{path}.queue.{size}",
            f"is {getattr(queue, size)}, which holds {capacity_bytes} bytes, expected at least one packet of "
            f"{packet_bytes} bytes and at most {BOUNDS['bytes'].high:.0f}",
        )
    if queue.red is not None and queue.red.max_bytes > capacity_bytes:
        raise FieldProblem(
            f"{path}.queue.red.max_bytes",
            f"is {queue.red.max_bytes}, expected at most the queue's {capacity_bytes} bytes",
        )
    resolved: dict[str, Any] = {"size_bytes": size_bytes, "size_bdp": None, "bdp_rtt_ms": None}
    if queue.kind in ("codel", "fq_codel"):
        resolved["codel"] = queue.codel or CoDel()
    if queue.kind == "pie":
        resolved["pie"] = queue.pie or Pie()
    if queue.kind == "cake":
        resolved["cake"] = queue.cake or Cake()
    if queue.kind == "fq_codel":
        resolved["quantum_bytes"] = queue.quantum_bytes or packet_bytes
    resolved["ecn"] = queue.kind in ("fq_codel", "cake") if queue.ecn is None else queue.ecn
    return queue.model_copy(update=resolved)


def _expand(scenario: Scenario) -> tuple[Flow, ...]:
    flows: dict[str, Flow] = {}
    common = scenario.stack.over(None)
    for index, flow in enumerate(scenario.flows):
        names = [flow.name] if flow.count == 1 else [f"{flow.name}-{i}" for i in range(flow.count)]
        stop_s = scenario.duration_s if flow.stop_s is None else min(flow.stop_s, scenario.duration_s)
        app = _resolve_app(flow.app, stop_s - flow.start_s, f"flows[{index}].app")
        for name in names:
            if name in flows:
                raise FieldProblem(f"flows[{index}].name", f"gives {name!r} a second time, expected unique names")
            stack = flow.stack.over(common)
            if isinstance(app, Bulk) and app.read_mbps is not None:
                _check_slow_reader(app.read_mbps, flow, stack, scenario.link.reverse, f"flows[{index}].app.read_mbps")
            resolved = {"name": name, "count": 1, "stop_s": stop_s, "app": app, "stack": stack}
            flows[name] = flow.model_copy(update=resolved)
    return tuple(flows.values())


def _check_slow_reader(
    read_mbps: float, flow: Flow, stack: SenderStack, reverse: ReverseLink | None, path: str
) -> None:
    if stack.overrides["receive_buffer_bytes"] == "ample":
        raise FieldProblem(path, f"is {read_mbps}, expected stack.receive_buffer_bytes: auto or a size beside it")
    if reverse is not None or flow.ack_path:
        raise FieldProblem(path, f"is {read_mbps}, expected none with link.reverse or ack_path, where ACKs are lost")


def _resolve_app(app: App, runs_s: float, path: str) -> App:
    """Return the application of a flow that runs so long."""
    if not isinstance(app, ShortFlow):
        return app
    within_s = runs_s if app.within_s is None else app.within_s
    if is_before(runs_s, within_s):
        raise FieldProblem(f"{path}.within_s", f"is {within_s}, expected at most {runs_s:g}, the time until stop_s")
    weights = app.weights or (1.0,) * len(app.size_bytes)
    return app.model_copy(update={"within_s": within_s, "weights": weights})
