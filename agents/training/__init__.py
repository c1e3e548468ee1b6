# SPDX-License-Identifier: GPL-2.0-only
"""Training of agents: settings, the loop that all trainers share, validation, checkpoints and loggers."""
