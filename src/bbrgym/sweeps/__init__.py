# SPDX-License-Identifier: GPL-2.0-only
"""Sweeps: jobs of `bbrgym train` or `bbrgym evaluate`, one for every combination of options.

overrides -> plan (jobs by name) -> [search proposes trials] -> launcher -> run_task, a process a job
    -> states and run folders -> results -> tables, figures, report.html
"""
