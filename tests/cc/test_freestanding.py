# SPDX-License-Identifier: GPL-2.0-only
"""A kernel must be able to take cc/: each header compiles freestanding, alone and with the others."""

import shutil
import subprocess
from pathlib import Path

import compilers
import pytest

CC = Path(__file__).resolve().parents[2] / "cc"
HEADERS = sorted(path.name for path in CC.glob("*.h"))
FLAGS = ["-std=c11", "-ffreestanding", "-mgeneral-regs-only", "-Wall", "-Wextra", "-Wconversion", "-Werror"]
COMPILERS = [c for c in ("gcc", "clang") if shutil.which(c)]
# What a freestanding implementation must provide to the compiler anyway (GCC manual, "Standards").
ALLOWED_CALLS = {"memset", "memcpy", "memmove", "memcmp"}
USES_ALL = """
#include "cc.h"
void use(struct cc_state *, struct cc_params *, const struct cc_start *, const struct cc_sample *,
         const struct cc_lost_packet *);
void use(struct cc_state *s, struct cc_params *p, const struct cc_start *start, const struct cc_sample *rs,
         const struct cc_lost_packet *lost)
{
    cc_params_init(p, CC_VARIANT_BBR_MIX);
    cc_init(s, p, start);
    cc_on_ack(s, p, rs);
    cc_on_packet_lost(s, p, lost);
    cc_on_packets_lost(s, p, lost, 2);
    cc_on_probe_repair(s, p, 1, 1, true);
    cc_on_loss_state(s, p, CC_CA_RECOVERY, 1);
    cc_on_rto(s, p, true, 1, 0, 1);
    cc_on_idle(s, p, 1, 1);
    cc_on_cwnd_underused(s, p, 1);
    cc_on_restart(s, p, 1, true);
    cc_on_undo(s, p);
}
"""


def compile_c(compiler: str, source: str, folder: Path) -> Path:
    path = folder / "unit.c"
    path.write_text(source)
    result = subprocess.run(
        [compiler, *FLAGS, "-O2", f"-I{CC}", "-c", str(path), "-o", str(folder / "unit.o")],
        capture_output=True,
        text=True,
        timeout=compilers.PATIENCE_S,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return folder / "unit.o"


def test_there_is_something_to_compile() -> None:
    assert COMPILERS, "a C compiler is part of what the tests need"
    assert "cc.h" in HEADERS


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("header", HEADERS)
def test_header_compiles_alone_and_twice(compiler: str, header: str, tmp_path: Path) -> None:
    compile_c(compiler, f'#include "{header}"\n#include "{header}"\n', tmp_path)


@pytest.mark.parametrize("compiler", COMPILERS)
def test_headers_compile_together_in_either_order(compiler: str, tmp_path: Path) -> None:
    for order in (HEADERS, HEADERS[::-1]):
        compile_c(compiler, "".join(f'#include "{header}"\n' for header in order), tmp_path)


@pytest.mark.parametrize("compiler", COMPILERS)
def test_no_library_is_called(compiler: str, tmp_path: Path) -> None:
    unit = compile_c(compiler, USES_ALL, tmp_path)
    symbols = subprocess.run(
        ["nm", "--undefined-only", str(unit)], capture_output=True, text=True, check=True, timeout=compilers.PATIENCE_S
    )
    undefined = {line.split()[-1] for line in symbols.stdout.splitlines()}
    assert undefined <= ALLOWED_CALLS
