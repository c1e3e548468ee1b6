# SPDX-License-Identifier: GPL-2.0-only
"""The running kernel: congestion controls of ``cc/`` that every program on this machine may use."""
