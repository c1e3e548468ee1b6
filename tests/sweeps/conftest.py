# SPDX-License-Identifier: GPL-2.0-only
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent / "support"))
