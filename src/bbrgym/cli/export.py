# SPDX-License-Identifier: GPL-2.0-only
"""``bbrgym export``."""

from __future__ import annotations

from collections.abc import Sequence

from bbrgym.cli.composition import compose_config
from bbrgym.cli.own_files import take_files
from bbrgym.cli.plain_command import Words
from bbrgym.cli.terminal import print_results

DESCRIPTION = """\
Writes the network of a trained agent to one file, ONNX or TorchScript, whose actions are those of the agent; or as a C
header in integer arithmetic, for worlds without Python, or a BPF object, for the kernel.

example:
  bbrgym export runs/mine format=onnx output=policy.onnx
"""
WORDS = Words("RUN_DIR")


def run(words: Sequence[str], given: Sequence[str]) -> None:
    """Write the network and print its path."""
    from bbrgym.agents.deploy.export_agent import export  # imports PyTorch, which no other command needs

    config = compose_config("export", given)
    take_files(config)
    del config["variant"]
    path = export(words[0], **{name: value and str(value) for name, value in config.items()})
    print_results(f"exported: {path}")
