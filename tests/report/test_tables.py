# SPDX-License-Identifier: GPL-2.0-only
"""Tables of an evaluation."""

import math

import polars as pl

from bbrgym.evaluate.records import SUMMARY_SCHEMA, TIMING_SCHEMA, flow_groups, per_run
from bbrgym.report.tables import goodput_columns, plain_text, speed_table, tables_of

NAN = math.nan


def test_flows_of_one_count_are_a_group() -> None:
    assert flow_groups(["a-0", "a-1", "b", "c-x"]) == {"a": ["a-0", "a-1"], "b": ["b"], "c-x": ["c-x"]}


def summary(rows: list[dict[str, object]]) -> pl.DataFrame:
    blank: dict[str, object] = {
        name: "x" if kind == pl.String else 0 if kind == pl.Int64 else 1.0 for name, kind in SUMMARY_SCHEMA.items()
    }
    return pl.DataFrame([{**blank, "agent": "fixed", **row} for row in rows], schema=SUMMARY_SCHEMA)


def test_the_queueing_delay_is_the_mean_over_packets() -> None:
    runs = per_run(
        summary(
            [
                {"flow": "a", "throughput_mbps": 3.0, "start_s": 0.0, "stop_s": 10.0, "queue_delay_mean_ms": 10.0},
                {"flow": "b", "throughput_mbps": 1.0, "start_s": 0.0, "stop_s": 10.0, "queue_delay_mean_ms": 50.0},
                {"flow": "c", "throughput_mbps": NAN, "start_s": NAN, "stop_s": NAN, "queue_delay_mean_ms": NAN},
            ]
        )
    )
    assert runs["queue_delay_ms"].to_list() == [20.0]


def test_many_flows_are_shown_as_their_total() -> None:
    runs = per_run(summary([{"flow": f"flow{letter}", "goodput_mbps": 2.0} for letter in "abcde"]))
    assert goodput_columns(runs) == {"goodput": "total"}
    assert runs["goodput"].to_list() == [10.0]


def summary_text(summary: pl.DataFrame) -> str:
    return plain_text(tables_of(summary))


def test_the_table_says_what_it_shows() -> None:
    rows = [
        {"scenario": "s", "world": "w", "variant": v, "seed": seed, "flow": "f", "goodput_mbps": float(seed)}
        for v in ("bbr", "bbq")
        for seed in (1, 3)
    ]
    text = summary_text(summary(rows))
    assert "s on w, mean and 95 % interval of 2 seeds by Student's t" in text
    assert "2.00 ± 12.71" in text
    assert text.index("bbr") < text.index("bbq")


def two_worlds(**of_second: float) -> pl.DataFrame:
    rows = [
        {"scenario": "s", "world": world, "variant": "bbr", "seed": seed, "flow": flow, **change}
        for world, change in (("a", {}), ("b", of_second))
        for seed in (1, 2)
        for flow in ("short", "long")
    ]
    return summary(rows)


def test_worlds_have_rows_of_their_own_and_their_difference_is_shown() -> None:
    text = summary_text(two_worlds(jain=0.9))
    assert "s on a and b, mean and 95 % interval of 2 seeds" in text
    assert [line.split()[:2] for line in text.splitlines()[6:9]] == [["bbr", "a"], ["b", "1.00"], []]
    assert "b minus a: 0 of 1 variants within the tolerances" in text
    assert "-0.100 !" in text
    assert "chance" not in text
    of_one = " ".join(summary_text(two_worlds().filter(pl.col("seed") == 1)).split())  # the title may take two lines
    assert "of one seed, so chance is part of it" in of_one
    assert "share" not in summary_text(two_worlds().filter(pl.col("world") == "a"))


def test_the_table_fits_a_terminal_of_80_columns() -> None:
    text = summary_text(two_worlds().filter(pl.col("seed") == 1).with_columns(pl.lit("bbr-pg-inv").alias("variant")))
    assert max(map(len, text.splitlines())) <= 80


def test_speed_is_in_simulated_seconds_per_second() -> None:
    rows = [
        ("s", "a", "bbr", "fixed", 1, 10.0, 4.0),
        ("s", "a", "bbq", "fixed", 1, 10.0, 6.0),
        ("s", "b", "bbr", "fixed", 1, 10.0, 0.01),
    ]
    table = speed_table(pl.DataFrame(rows, schema=TIMING_SCHEMA, orient="row"))
    cells = [list(column.cells) for column in table.columns]
    assert list(zip(*cells, strict=True)) == [
        ("a", "20", "10.00", "2.0", "1"),
        ("b", "10", "0.01", "1000.0", "500.0 times a"),
    ]
