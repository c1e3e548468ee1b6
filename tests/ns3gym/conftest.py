# SPDX-License-Identifier: GPL-2.0-only
from collections.abc import Iterator
from contextlib import closing

import pytest
from client import Client


@pytest.fixture
def client() -> Iterator[Client]:
    with closing(Client()) as client:
        yield client
