# SPDX-License-Identifier: GPL-2.0-only
"""What sets a flow's tunables."""
