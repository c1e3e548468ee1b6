# SPDX-License-Identifier: GPL-2.0-only
"""Scenarios from measurements: logs of connections on a real path are read, and the path's facts are fitted."""
