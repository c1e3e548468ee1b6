# SPDX-License-Identifier: GPL-2.0-only
"""Overrides of a command line and types of its options, in Hydra's and OmegaConf's terms."""
