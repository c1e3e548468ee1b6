# SPDX-License-Identifier: GPL-2.0-only
"""The process of a job: ``python -m bbrgym.cli.job PARENT_PID ARGUMENTS``, the command bbrgym that ends when
its parent does.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time

_GRACE_S = 60.0


def _end_with(parent_pid: int) -> None:
    """As soon as the parent has ended, asks this process to end in order, and after a while ends it anyhow."""
    parent_fd = os.pidfd_open(parent_pid)
    if os.getppid() != parent_pid:  # it ended before we looked
        os._exit(1)

    def wait() -> None:
        poll = select.poll()
        poll.register(parent_fd, select.POLLIN)
        poll.poll()  # the one wait without a timeout: it lasts as long as the parent
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_GRACE_S)
        os._exit(1)

    threading.Thread(target=wait, daemon=True, name="watch-parent").start()


if __name__ == "__main__":
    _end_with(int(sys.argv[1]))
    from bbrgym.cli.main import main

    sys.exit(main(sys.argv[2:]))
