# SPDX-License-Identifier: GPL-2.0-only
"""The test cases of draft-ietf-ccwg-bbr-06, as scenarios with checks of the sender's state, ACK by ACK."""
