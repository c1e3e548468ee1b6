# SPDX-License-Identifier: GPL-2.0-only
"""A frozen benchmark: the same draws for everybody, and files of results that anybody can check by running them again.

tasks       what is run: draws with their hashes, in bbrgym-bench-2.yaml
entries     what an entrant scores there
deployable  whether others would let it in
results     the file of results, and its check
"""
