# SPDX-License-Identifier: GPL-2.0-only
"""One run of one scenario, driven in control intervals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from bbrgym.errors import ConfigError
from bbrgym.scenario.files import load_scenario
from bbrgym.scenario.flow import check_tunables
from bbrgym.scenario.model import Scenario
from bbrgym.schema import FieldProblem, plain, shown
from bbrgym.tunables import TUNABLE_COLUMNS
from bbrgym.worlds.layout import Table
from bbrgym.worlds.vector_world import Snapshot, VectorWorld, flows_of


class World:
    """One run of one scenario, a view of a vector of one; made by `bbrgym.make_world`.

    A world may be used by any thread, by one at a time. The arrays it hands out are read-only views that the next
    call of advance() or reset() changes; copy what you keep.

    Attributes:
        tunable_names, flow_fields, link_fields, flow_summary_fields, link_summary_fields: the arrays' columns.

    Example:
        >>> import bbrgym
        >>> with bbrgym.make_world("twin", "steady") as world:
        ...     world.advance(1.0)
        ...     world.set_tunables("flow", {"bbr_cwnd_gain": 1.5})
        ...     while not world.done:
        ...         world.advance(1.0)
        ...     flows, link = world.summary()
        >>> flows.shape == (1, len(world.flow_summary_fields)), link.shape == (len(world.link_summary_fields),)
        (True, True)
    """

    tunable_names = VectorWorld.tunable_names
    flow_fields = VectorWorld.flow_fields
    link_fields = VectorWorld.link_fields
    flow_summary_fields = VectorWorld.flow_summary_fields
    link_summary_fields = VectorWorld.link_summary_fields

    def __init__(self, vector: VectorWorld) -> None:
        self._vector = vector
        self._show()

    def reset(self, scenario: Any = None, seed: int | None = None) -> None:
        """Start a run from the beginning.

        Args:
            scenario: another scenario (a Scenario, a name, a path or a mapping). Default: the same one.
            seed: another seed, 0 to 2**63 - 1. Default: the same one, which repeats the run to the byte, except in real
                time (``linux``): there it repeats the random draws alone.

        Raises:
            ScenarioError, ConfigError: the scenario or the seed is wrong.
            WorldError: the simulation broke.
        """
        self._vector.check_open()
        if scenario is not None:
            scenario = load_scenario(scenario)
            self._vector.reserve(flows_of(scenario))
        self._vector.reset(0, scenario, seed)
        self._show()

    def set_tunables(self, flow: int | str, values: Mapping[str, float]) -> None:
        """Set tunables of one flow, in force from the beginning of the next interval.

        Args:
            flow: index or name.
            values: natural units by name; see `bbrgym.tunables.TUNABLES`.

        Raises:
            ConfigError: no such flow, the flow has no such tunable, or a value out of its range; nothing is set then.
        """
        self._vector.check_running(0)
        index, values = self._vector.flow_index(0, flow), plain(values)
        if not isinstance(values, Mapping):
            raise ConfigError(f"flow {self.flow_names[index]!r}: tunables {shown(values)}, allowed are values by name")
        try:
            check_tunables(self.scenario.resolved().flows[index].cc, values)
        except FieldProblem as error:
            raise ConfigError(f"flow {self.flow_names[index]!r}: {error.path} {error.problem}") from None
        for name, value in values.items():
            self._vector.tunables[0, index, TUNABLE_COLUMNS[name]] = value

    def advance(self, seconds: float) -> None:
        """Run for so much simulated time, at most to the scenario's end, and measure that interval.

        Raises:
            ConfigError: seconds is not a finite number above 0.
            WorldError: the simulation broke.
        """
        self._vector.advance(seconds)

    def flow_stats(self) -> Table:
        """Return the last interval's measurements: [flows, flow_fields]."""
        self._vector.check_running(0)
        return self._flow_stats

    def link_stats(self, link: str | None = None) -> Table:
        """Return the last interval's measurements of a link: [link_fields].

        Args:
            link: one of `Scenario.all_links`. Default: the bottleneck, of several links the first one.

        Raises:
            ConfigError: there is no such link.
        """
        self._vector.check_running(0)
        return self._link_stats if link is None else self._vector.link_stats_of(0, link)

    def tunables(self) -> Table:
        """Return the tunables of the next interval: [flows, tunables], NaN where a flow does not have one."""
        self._vector.check_running(0)
        return self._tunables

    def summary(self) -> tuple[Table, Table]:
        """Return the measurements from the end of the warm-up to now.

        Returns:
            Arrays [flows, flow_summary_fields] and [link_summary_fields], the caller's own.
        """
        return self._vector.summary(0)

    def link_summary(self, link: str) -> Table:
        """Return the measurements of a link from the end of the warm-up to now: [link_summary_fields].

        Raises:
            ConfigError: there is no such link.
        """
        return self._vector.link_summary_of(0, link)

    def save(self) -> Snapshot:
        """Return a snapshot of the run, for any number of `restore` calls.

        Raises:
            ConfigError: this world cannot be saved; the twin in this process can.
        """
        return self._vector.save(0)

    def restore(self, snapshot: Snapshot) -> None:
        """Continue from a snapshot of a world of the same kind, with that scenario and seed, bit for bit.

        Raises:
            ConfigError: the snapshot is another kind of world's, or this one cannot; it goes on as it was.
        """
        self._vector.restore(0, snapshot)
        self._show()

    def trace_acks(self, flow: int | str, max_rows: int) -> None:
        """Record the ACKs of a flow from now on.

        Args:
            flow: index or name.
            max_rows: the most ACKs to record.

        Raises:
            ConfigError: no such flow, max_rows is not a whole number from 0, or this world cannot; one in this process
                can.
            ValueError: the flow runs one of ns-3's own controls.
        """
        self._vector.trace_acks(0, flow, max_rows)

    def ack_trace(self, flow: int | str) -> Any:
        """Return the recorded ACKs of a flow: a structured array of `bbrgym.worlds.ACK_FIELDS`, a row per ACK.

        -1 says that a value was not measured or that there is no bound.

        Raises:
            ConfigError: no such flow, or this world cannot.
        """
        return self._vector.ack_trace(0, flow)

    def trace_packets(self) -> None:
        """Log every packet and every ACK's decision of the run; call after a reset and before the first advance.

        Raises:
            ConfigError: this world cannot; a simulated one in this process can.
            ValueError: the run has begun.
        """
        self._vector.trace_packets(0)

    def take_packets(self) -> tuple[Any, Any]:
        """Return what was logged since the last call; what is not taken stays in memory.

        Returns:
            Structured arrays, units in the names: a row per event of a packet (see `bbrgym.worlds.PACKET_EVENTS` and
            `bbrgym.worlds.PACKET_FLAGS`), and a row per ACK with the sender's state after it, as `ack_trace`'s, with
            its flow and the number of these packets' rows that precede it.

        Raises:
            ConfigError: this world cannot.
        """
        return self._vector.take_packets(0)

    def close(self) -> None:
        """End the simulation for good and free all resources; a second call does nothing."""
        self._vector.close()

    @property
    def name(self) -> str:
        """The world's registered name."""
        return self._vector.name

    @property
    def scenario(self) -> Scenario:
        """The scenario that runs."""
        return self._vector.scenarios[0]

    @property
    def seed(self) -> int:
        """Seed of the run."""
        return self._vector.seeds[0]

    @property
    def now_s(self) -> float:
        """Simulated time in seconds since the run's beginning."""
        self._vector.check_running(0)
        return float(self._vector.now_s[0])

    @property
    def done(self) -> bool:
        """True once the scenario's end is reached."""
        self._vector.check_running(0)
        return bool(self._vector.done[0])

    @property
    def flow_names(self) -> tuple[str, ...]:
        """The rows of the flows' arrays."""
        return self._vector.flow_names(0)

    def __enter__(self) -> World:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a world cannot be copied or pickled: call make_world() where the other one is needed")

    def __repr__(self) -> str:
        return repr(self._vector)

    def _show(self) -> None:
        """Make the views of the run that begins."""
        flows = len(self.flow_names)
        self._tunables = _read_only(self._vector.tunables[0, :flows])
        self._flow_stats = _read_only(self._vector.flow_stats[0, :flows])
        self._link_stats = _read_only(self._vector.link_stats[0])


def _read_only(table: Table) -> Table:
    view: Table = table.view()
    view.flags.writeable = False
    return view
