# SPDX-License-Identifier: GPL-2.0-only
"""Training: the loop that all trainers share, its settings, validation, folder, loggers and export."""
