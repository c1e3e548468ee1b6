# SPDX-License-Identifier: GPL-2.0-only
"""Both sides of ns3-gym's protocol: serving an environment to an agent, and driving a simulation."""
