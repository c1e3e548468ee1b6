# SPDX-License-Identifier: GPL-2.0-only
"""What some tests need of the machine, and the line at a run's end that says what to install for which."""

import ctypes
import re
import shutil
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.util import find_spec

import pytest


@dataclass(frozen=True)
class Need:
    """Of a Debian package."""

    purpose: str  # what is tested with it
    programs: tuple[str, ...] = ()  # any of which is enough. Default: none
    library: str | None = None  # that has to be there. Default: none


#: By package, as `.ci/run` installs them too.
NEEDS = {
    "clang": Need("cc/ and policies compiled for BPF", ("clang",)),
    "libbpf1": Need("congestion controls in BPF in the kernel world", library="libbpf.so.1"),
    "libngtcp2-dev": Need("flows of ngtcp2", library="libngtcp2.so"),
    "libngtcp2-crypto-gnutls-dev": Need("flows of ngtcp2", library="libngtcp2_crypto_gnutls.so"),
    "libgnutls28-dev": Need("flows of ngtcp2", library="libgnutls.so"),
    "iproute2": Need("transfers over a path of the kernel's", ("tc",)),
    "iperf3": Need("congestion controls in the running kernel under other programs", ("iperf3",)),
    "curl": Need("congestion controls in the running kernel under other programs", ("curl",)),
    "chromium": Need("pages of reports and traces in a browser", ("chromium", "chromium-browser", "google-chrome")),
    "tshark": Need("traces read by Wireshark", ("tshark",)),
    "valgrind": Need("the twin's instructions per packet", ("valgrind",)),
}
_REASON = re.compile(r"apt-get install ([\w+-]+(?: [\w+-]+)*): ")


def program_of(package: str) -> str | None:
    """Return the path of a package's program, None if it is not installed."""
    return next(filter(None, map(shutil.which, NEEDS[package].programs)), None)


def missing(*packages: str) -> list[str]:
    """Return those of packages that are not installed."""
    return [one for one in packages if not _is_there(one)]


def reason_without(*packages: str) -> str:
    """Return the reason of a skip for want of packages."""
    return f"apt-get install {' '.join(packages)}: {', '.join(NEEDS[one].purpose for one in packages)}"


def needs_modules(*modules: str, reason: str) -> pytest.MarkDecorator:
    """Return a mark that skips a test where modules are missing; no worker imports them for another one's tests."""
    return pytest.mark.skipif(not all(map(find_spec, modules)), reason=reason)


def needs(*packages: str) -> pytest.MarkDecorator:
    """Return a mark that skips a test where packages are missing."""
    lacking = missing(*packages)
    return pytest.mark.skipif(bool(lacking), reason=reason_without(*(lacking or packages)))


def packages_of(reason: str) -> list[str]:
    """Return the packages for want of which a test was skipped."""
    found = _REASON.search(reason)
    return found[1].split() if found else []


def advice(reasons: Iterable[str]) -> str:
    """Return a line on what to install for skipped tests.

    Args:
        reasons: of each of them.
    """
    lacking: Counter[str] = Counter()
    others = total = 0
    for reason in reasons:
        total += 1
        packages = packages_of(reason)
        lacking.update(packages)
        others += not packages
    parts = [f"{package} ({NEEDS[package].purpose}: {count})" for package, count in lacking.most_common()]
    install = f"; apt-get install {', '.join(parts)}" if parts else ""
    return f"{total} tests skipped{install}{f'; {others} for other reasons, see above' if others else ''}"


def _is_there(package: str) -> bool:
    need = NEEDS[package]
    if need.library is not None:
        try:
            ctypes.CDLL(need.library)
        except OSError:
            return False
    return not need.programs or program_of(package) is not None
