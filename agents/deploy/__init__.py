# SPDX-License-Identifier: GPL-2.0-only
"""Trained agents outside Python: ONNX and TorchScript files, and policies in C for worlds and the kernel."""
