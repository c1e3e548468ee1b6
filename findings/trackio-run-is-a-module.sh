#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# With "import trackio as wandb", wandb.run is not None before any run has begun: it is the module trackio.run.
#
# Seen with trackio 0.43.0, 2026-11-28:
#   before init: wandb.run is a module; in a run: still a module, not the run
#   define_metric of wandb: missing, Run.summary: missing, init(entity=...): TypeError
# Code that reuses a run that its caller began, by the test "wandb.run is not None", takes every process to be in a run.

set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

python3 -m venv venv
venv/bin/pip install -q trackio==0.43.0
export HOME="$folder" TRACKIO_DIR="$folder/trackio" HF_HUB_OFFLINE=1
venv/bin/python - <<'EOF'
import types

import trackio as wandb

print("trackio", wandb.__version__)
before = wandb.run
run = wandb.init(project="finding", config={"seed": 1})
print("before init:", type(before).__name__, "in a run:", type(wandb.run).__name__)
print("define_metric", hasattr(wandb, "define_metric"), "summary", hasattr(run, "summary"))
assert isinstance(before, types.ModuleType) and wandb.run is before is not run
assert not hasattr(wandb, "define_metric") and not hasattr(run, "summary")
wandb.finish()
try:
    wandb.init(project="finding", entity="someone")
except TypeError as error:
    print("init(entity=...): TypeError:", error)
else:
    raise SystemExit("init takes entity")
print("ok")
EOF
