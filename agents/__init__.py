# SPDX-License-Identifier: GPL-2.0-only
"""Agents that set tunables: fixed, searched and learned."""
