# SPDX-License-Identifier: GPL-2.0-only
"""``bbrgym export``."""

from __future__ import annotations

import argparse

from bbrgym.cli.terminal import print_results

DESCRIPTION = """\
Writes the network of a trained agent to one file, ONNX or TorchScript, whose actions are those of the agent; or as a C
header in integer arithmetic, for worlds without Python, or a BPF object, for the kernel.

example:
  bbrgym export runs/mine --format onnx --output policy.onnx
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("run_dir", metavar="RUN_DIR", help="run folder of bbrgym train")
    parser.add_argument("--format", default="onnx", help="onnx, torchscript, c or bpf (default: onnx)")
    parser.add_argument("--checkpoint", default="best", help="best or last (default: best)")
    parser.add_argument("--output", metavar="FILE", help="default: in RUN_DIR/exported")


def run(options: argparse.Namespace) -> None:
    """Write the network and print its path."""
    from bbrgym.agents.deploy.export_agent import export  # imports PyTorch, which no other command needs

    path = export(options.run_dir, options.format, checkpoint=options.checkpoint, output=options.output)
    print_results(f"exported: {path}")
