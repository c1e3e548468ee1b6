# SPDX-License-Identifier: GPL-2.0-only
from collections.abc import Iterator

import pytest
from owners import only_own_children

from bbrgym.ns3gym.channel import AgentSocket


@pytest.fixture(autouse=True)
def _only_own_children() -> Iterator[None]:
    with only_own_children():
        yield


@pytest.fixture
def agent() -> Iterator[AgentSocket]:
    with AgentSocket(timeout_s=120.0) as agent:
        yield agent
