#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Hydra's launchers for Ray and joblib cannot be installed together with the newest joblib.
#
# Seen with hydra-ray-launcher 1.2.2, hydra-joblib-launcher 1.2.0 and joblib 1.6.0 on PyPI, 2026-11-28:
#   hydra-ray-launcher wants cloudpickle<3, joblib 1.6 wants cloudpickle>=3.0
# pip says so if joblib is pinned; if not, it takes joblib 1.5.3 and cloudpickle 2.2.1 and says nothing.

set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

python3 -m venv venv
launchers="hydra-ray-launcher==1.2.2 hydra-joblib-launcher==1.2.0"
if venv/bin/pip install --dry-run $launchers joblib==1.6.0 >pinned.txt 2>&1; then
    echo "they can be installed together"
    exit 1
fi
grep -E "depends on (cloudpickle|joblib)" pinned.txt
grep -q "cloudpickle<3" pinned.txt
grep -q "cloudpickle>=3" pinned.txt
venv/bin/pip install --dry-run $launchers >free.txt 2>&1
grep "^Would install" free.txt | grep -oE "(joblib|cloudpickle)-[0-9.]+"
grep -q " cloudpickle-2" free.txt
echo ok
