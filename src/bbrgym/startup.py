# SPDX-License-Identifier: GPL-2.0-only
"""End the command at Ctrl-C during imports in a sentence: an import may turn a KeyboardInterrupt into any error.

`bbrgym.cli.main.program` takes the signal over. Another process that imports the package keeps its own handler.
"""

import os
import signal
import sys


def _end(*_: object) -> None:
    os.write(2, b"bbrgym: interrupted\n")
    os._exit(130)


_is_command = "bbrgym" in [os.path.basename(one) for one in sys.orig_argv[1:3]]  # noqa: PTH119 - pathlib takes longer
if _is_command and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, _end)
