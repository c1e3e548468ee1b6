# SPDX-License-Identifier: GPL-2.0-only
"""Searches a distribution for networks where an entrant loses most against a reference.

`search` does all of it: `network_search` proposes networks, `search_space` makes them from numbers, and
`network_scores` runs both on them.
"""
