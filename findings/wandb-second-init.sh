#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# A second wandb.init inside a run drops its config, and forgets that the run is offline.
#
# Seen with wandb 0.31.0, 2026-11-28, after init(mode="offline", config={"seed": 1}):
#   init(config={"seed": 2, "rate": 3}): UsageError: No API key configured. Use `wandb login` to log in.
#   with WANDB_MODE=offline: the same run, whose config is still {'seed': 1}; a line on stderr says that it was returned
# A library that logs into its caller's run has to call run.config.update, and leave the caller's keys alone.

set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

python3 -m venv venv
venv/bin/pip install -q wandb==0.31.0
unset "${!WANDB_@}"
export HOME="$folder" WANDB_DIR="$folder"
venv/bin/python - <<'EOF'
import wandb

print("wandb", wandb.__version__)
run = wandb.init(project="finding", mode="offline", config={"seed": 1})
try:
    wandb.init(config={"seed": 2, "rate": 3})
except wandb.errors.UsageError as error:
    print("UsageError:", error)
    assert "No API key" in str(error)
else:
    raise SystemExit("the second init takes the mode of the run")
run.finish()
EOF
WANDB_MODE=offline venv/bin/python - <<'EOF'
import wandb

run = wandb.init(project="finding", config={"seed": 1})
second = wandb.init(config={"seed": 2, "rate": 3})
print("the same run:", second is run, dict(run.config))
assert second is run
assert dict(run.config) == {"seed": 1}
run.finish()
EOF
echo ok
