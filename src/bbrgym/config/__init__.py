# SPDX-License-Identifier: GPL-2.0-only
"""Composition of a command's configuration from conf/ and its command line, with Hydra."""
