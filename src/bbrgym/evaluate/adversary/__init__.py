# SPDX-License-Identifier: GPL-2.0-only
"""Searches a distribution for networks where a contestant loses most against a reference.

settings   of a search
places     a network from one number per range of the distribution, and from a capacity in steps
contest    scores of both on networks side by side
search     proposes networks, tries them on seeds A, and keeps every trial
cases      the networks that are kept: scored on seeds B, in words, as files
hunt       all of it
"""
