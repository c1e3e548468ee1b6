# SPDX-License-Identifier: GPL-2.0-only
"""Run folders: files that are whole or absent, where they came from, and checksums."""
