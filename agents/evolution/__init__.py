# SPDX-License-Identifier: GPL-2.0-only
"""Policies found by evolution: whole episodes score them, so that what pays at once and harms later does not count."""
