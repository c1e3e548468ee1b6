# SPDX-License-Identifier: GPL-2.0-only
"""Evaluations: entrants run the same scenarios, and their records are compared."""
