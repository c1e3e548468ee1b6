# SPDX-License-Identifier: GPL-2.0-only
"""Tables, figures and pages made from results."""
