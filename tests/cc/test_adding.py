# SPDX-License-Identifier: GPL-2.0-only
"""A mechanism added to a copy of the tree by CONTRIBUTING's steps works; a name that no table has does not compile."""

import shutil
import subprocess
from pathlib import Path

import compilers
import pytest

ROOT = Path(__file__).resolve().parents[2]

MECHANISM = 'CC_MECHANISM(WINDOW_SHARE, use_window_share, "share", "a test")\n'
TUNABLE = 'CC_TUNABLE(share_of_cwnd, "share", ratio, 0.5, 0.25, 1.0, linear, WINDOW_SHARE, "a test")\n'
HEADER = """\
#ifndef BBRGYM_CC_MECH_WINDOW_SHARE_H
#define BBRGYM_CC_MECH_WINDOW_SHARE_H

#include "bbr_state.h"

static inline uint64_t share_pkts(const struct cc_params *params, uint64_t target_pkts)
{
    return cc_scale(target_pkts, params->share_of_cwnd_q16);
}

#endif
"""
TARGET = "    uint64_t target_pkts = bbr_bdp_pkts(bbr, bw_Bps, bbr->cwnd_gain_q16);\n    bool capped"
HOOKED = TARGET.replace(
    "    bool capped",
    "    if (cc_has(params, CC_WINDOW_SHARE)) target_pkts = share_pkts(params, target_pkts);\n    bool capped",
)

#: Prints which variants have the new tunables, and the window with the switch off and on.
PROGRAM = """
#include "params.hpp"
#include <iostream>
using namespace bbrgym;

uint32_t Window(double use, double share)
{
    cc_params params = Preset(*FindVariant("bbr-mix"));
    SetTunable(params, *FindTunable("use_window_share"), use);
    SetTunable(params, *FindTunable("share_of_cwnd"), share);
    const cc_start start{.now_us = 0, .srtt_us = 40000, .min_rtt_us = 40000, .rng_seed = 1, .mss_bytes = 1448,
                         .initial_cwnd_pkts = 10};
    cc_state state{};
    cc_init(&state, &params, &start);
    cc_sample rs{};
    for (int i = 1; i < 2000; ++i) {
        rs.now_us = rs.delivered_time_us = 40000 + 2400 * static_cast<uint64_t>(i);
        rs.delivered_pkts += 2;
        rs.prior_delivered_pkts = cc_sub_sat(rs.delivered_pkts, 33);
        rs.sample_pkts = 33;
        rs.interval_us = rs.rtt_us = 40000;
        rs.srtt_us = rs.min_rtt_us = 40000;
        rs.acked_pkts = 2;
        rs.prior_in_flight_pkts = rs.in_flight_pkts = 33;
        cc_on_ack(&state, &params, &rs);
    }
    return state.cwnd_pkts;
}

int main()
{
    for (const char* name : {"use_window_share", "share_of_cwnd"}) {
        std::cout << name << ':';
        for (int v = 0; v < static_cast<int>(Variants().size()); ++v)
            if (VariantHasTunable(v, *FindTunable(name))) std::cout << ' ' << Variants()[v].name;
        std::cout << '\\n';
    }
    std::cout << Window(0, 0.5) << ' ' << Window(1, 1.0) << ' ' << Window(1, 0.5) << '\\n';
}
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "cc", tmp_path / "cc")
    (tmp_path / "world").mkdir()
    shutil.copy(ROOT / "world" / "params.hpp", tmp_path / "world")
    return tmp_path


def append(path: Path, text: str) -> None:
    path.write_text(path.read_text() + text)


def add_the_mechanism(tree: Path) -> None:
    append(tree / "cc" / "mechanisms.def", MECHANISM)
    append(tree / "cc" / "tunables.def", TUNABLE)
    (tree / "cc" / "mech_window_share.h").write_text(HEADER)
    bbr = tree / "cc" / "bbr.h"
    include = '#include "mech_cwnd_cap.h"\n'
    text = bbr.read_text()
    assert text.count(TARGET) == text.count(include) == 1
    bbr.write_text(text.replace(TARGET, HOOKED).replace(include, include + '#include "mech_window_share.h"\n'))


def compile_in(tree: Path, language: str, source: str, *options: str) -> subprocess.CompletedProcess[str]:
    folders = [f"-I{tree / 'cc'}", f"-I{tree / 'world'}"]
    command = ["gcc" if language == "c" else "g++", "-O0", *folders, *options]
    return subprocess.run(
        [*command, "-x", language, "-"],
        input=source,
        capture_output=True,
        text=True,
        check=False,
        timeout=compilers.PATIENCE_S,
    )


def test_a_mechanism_added_by_the_documented_steps_works(tree: Path) -> None:
    add_the_mechanism(tree)
    program = tree / "program"
    compiled = compile_in(tree, "c++", PROGRAM, "-std=c++20", "-o", str(program))
    assert compiled.returncode == 0, compiled.stderr
    printed = subprocess.run(
        [str(program)], capture_output=True, text=True, check=True, timeout=compilers.PATIENCE_S
    ).stdout.splitlines()
    assert printed[0] == "use_window_share: bbr-mix", "the switch is bbr-mix's, and no variant has the mechanism"
    assert printed[1] == "share_of_cwnd: bbr-mix"
    off, whole, half = map(int, printed[2].split())
    assert off == whole, "at a share of 1 the hook changes nothing"
    assert off - half == pytest.approx(33, abs=2), "half of the target of two BDP, 33 packets each, is gone"
    as_in_the_kernel = ["-std=c11", "-ffreestanding", "-mgeneral-regs-only", "-Wall", "-Wextra", "-Wconversion"]
    compiled = compile_in(tree, "c", '#include "cc.h"\n', *as_in_the_kernel, "-Werror", "-fsyntax-only")
    assert compiled.returncode == 0, compiled.stderr


@pytest.mark.parametrize(
    ("table", "row"),
    [
        ("tunables.def", TUNABLE),
        ("variants.def", 'CC_VARIANT(SHARED, "shared", CC_ALGORITHM_BBR, CC_WINDOW_SHARE, 1, "a test")\n'),
    ],
    ids=["tunables", "variants"],
)
@pytest.mark.parametrize(
    ("language", "source"), [("c", '#include "cc.h"\n'), ("c++", '#include "params.hpp"\n')], ids=["c", "c++"]
)
def test_an_unknown_mechanism_does_not_compile(tree: Path, table: str, row: str, language: str, source: str) -> None:
    append(tree / "cc" / table, row)
    standard = "-std=c11" if language == "c" else "-std=c++20"
    compiled = compile_in(tree, language, source, standard, "-fsyntax-only")
    assert compiled.returncode != 0
    assert "CC_WINDOW_SHARE" in compiled.stderr
