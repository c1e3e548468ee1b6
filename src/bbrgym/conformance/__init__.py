# SPDX-License-Identifier: GPL-2.0-only
"""The test cases of draft-ietf-ccwg-bbr-06 as scenarios with statements on the sender's state: `draft_verdicts`."""
