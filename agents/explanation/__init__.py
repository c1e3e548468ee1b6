# SPDX-License-Identifier: GPL-2.0-only
"""Explanations of trained agents: a rule by its own numbers, any other agent by what shuffled features change."""
