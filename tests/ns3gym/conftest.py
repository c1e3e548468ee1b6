# SPDX-License-Identifier: GPL-2.0-only
from collections.abc import Iterator

import pytest

from bbrgym.ns3gym.channel import AgentSocket


@pytest.fixture
def agent() -> Iterator[AgentSocket]:
    with AgentSocket(timeout_s=120.0) as agent:
        yield agent
