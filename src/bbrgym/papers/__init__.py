# SPDX-License-Identifier: GPL-2.0-only
"""Experiments of the papers: their settings, their published numbers, and runs that measure the same quantities."""
