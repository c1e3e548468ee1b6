# SPDX-License-Identifier: GPL-2.0-only
import pytest


@pytest.fixture(autouse=True)
def nobody_logged_in(tmp_path, monkeypatch):
    """Keep the login and the home of whoever runs the tests out of them."""
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    for name in ("WANDB_DATA_DIR", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
