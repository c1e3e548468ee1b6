# SPDX-License-Identifier: GPL-2.0-only
"""Scenarios: the validated model, files, distributions, families and traces."""
