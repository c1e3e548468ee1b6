# SPDX-License-Identifier: GPL-2.0-only
"""Multiruns: what Hydra's leave to bbrgym, which is each job's process, Optuna's search and the results of a folder.

options -> sweeper, Hydra's or our search -> Hydra's launcher -> Job: a process, a run folder -> results -> report
"""
