# SPDX-License-Identifier: GPL-2.0-only
import pytest


@pytest.fixture(autouse=True)
def nobody_logged_in(tmp_path, monkeypatch):
    """Whoever runs the tests: their login and their home stay out of it."""
    for name in ("WANDB_API_KEY", "WANDB_BASE_URL", "WANDB_MODE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    for name in ("WANDB_DATA_DIR", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
