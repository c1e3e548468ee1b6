# SPDX-License-Identifier: GPL-2.0-only
"""ns3-gym's protocol: simulations that any of its agents drives, and the agent that drives any of its simulations."""
