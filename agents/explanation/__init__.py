# SPDX-License-Identifier: GPL-2.0-only
"""Explanations of trained agents: a rule by the rule's numbers, any other agent by the effect of shuffled features."""
