# SPDX-License-Identifier: GPL-2.0-only
"""Searches a distribution for networks where an entrant loses most against a reference.

`hunt` does all of it: `network_search` proposes networks, `places` makes them from numbers, `network_scores` runs both
on them, `words` describes what is kept.
"""
