# SPDX-License-Identifier: GPL-2.0-only
"""ns3-gym's protocol, both ends: simulations that any agent of ns3-gym drives, and the agent that drives any such one."""
