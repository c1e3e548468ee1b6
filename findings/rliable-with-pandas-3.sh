#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# rliable's newest release cannot be imported beside the newest pandas that it allows.
#
# Seen with rliable 1.2.0, arch 7.2.0 and pandas 3.1.1 on Python 3.11, 2026-11-28. rliable wants arch<8 and pandas>=1.0;
# arch 7 calls a private helper of pandas whose arguments changed in pandas 3:
#   import rliable.metrics  works
#   import rliable.library  TypeError: deprecate_kwarg() missing 1 required positional argument: 'new_arg_name'
# So intervals need pandas<3, point estimates do not.

set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

python3 -m venv venv
venv/bin/pip install -q rliable==1.2.0 arch==7.2.0 pandas==3.1.1 numpy==2.4.6 scipy==1.17.1 statsmodels==0.15.0 \
    seaborn==0.13.2
venv/bin/pip check
venv/bin/python - <<'EOF'
from importlib.metadata import version

print(*(f"{name} {version(name)}" for name in ("rliable", "arch", "pandas")))
import rliable.metrics

print("import rliable.metrics  works")
try:
    import rliable.library
except TypeError as error:
    print(f"import rliable.library  TypeError: {error}")
    assert "deprecate_kwarg" in str(error)
else:
    raise SystemExit("import rliable.library works")
print("ok")
EOF
