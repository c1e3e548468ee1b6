# SPDX-License-Identifier: GPL-2.0-only
"""Runs packetdrill scripts on tcp/: python tests/packetdrill FILE|FOLDER ..."""

import argparse
import collections
import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(_HERE), str(_HERE.parent / "support")]

import binding  # noqa: E402
import runner  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(prog="python tests/packetdrill", description=__doc__)
    parser.add_argument("paths", nargs="+", type=Path, metavar="FILE", help="a script, or a folder of them")
    parser.add_argument("-D", "--define", action="append", default=[], metavar="NAME=VALUE", help="replace a word")
    arguments = parser.parse_args()
    defines = dict(one.partition("=")[::2] for one in arguments.define)
    missing = [str(path) for path in arguments.paths if not path.exists()]
    if missing:
        parser.error(f"no such file or folder: {', '.join(missing)}")
    connection = binding.load()
    verdicts = [runner.run_file(path, connection, defines) for path in runner.scripts(arguments.paths)]
    print(runner.table(verdicts))
    counts = collections.Counter(verdict.result for verdict in verdicts)
    print("\n" + ", ".join(f"{counts[result]} {result}" for result in runner.RESULTS if counts[result]))
    return int(counts["wrong"] + counts["not run"] > 0)


if __name__ == "__main__":
    sys.exit(main())
