# SPDX-License-Identifier: GPL-2.0-only
"""Loggers, which take a training's metrics beside the run folder."""
