# SPDX-License-Identifier: GPL-2.0-only
"""Exports the actor of a trained agent to one file, ONNX, TorchScript, C or BPF, that needs neither bbrgym nor its
trainer.

docs/training.md says what a file of the first two formats takes and returns; discrete actions equal the agent's. Its
JSON description stands in ONNX under the metadata key `bbrgym`, in TorchScript as extra file `bbrgym.json`.

A C header (`bbrgym.agents.deploy.policy_header`) takes measurements and returns tunables, in integer arithmetic; a BPF
object (`bbrgym.agents.deploy.bpf_object`) is the kernel's program with it.
"""

from __future__ import annotations

import io
import json
import logging
import math
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import torch

from bbrgym.agents.deploy.bpf_object import bpf_object
from bbrgym.agents.deploy.integer_policy import IntegerPolicy
from bbrgym.agents.deploy.policy_header import policy_header
from bbrgym.agents.deploy.quantise import quantise
from bbrgym.agents.deploy.quantise_portfolio import quantise_portfolio
from bbrgym.agents.loading import load_agent
from bbrgym.agents.networks import Network, RecurrentNetwork, SamplingNetwork
from bbrgym.agents.portfolio.policy import PortfolioAgent
from bbrgym.agents.rollout import batch_of, options_for
from bbrgym.agents.training.about import KEY, about_agent
from bbrgym.agents.training.folder import TrainingFolder
from bbrgym.errors import ConfigError, MissingExtraError, nearest
from bbrgym.runs.atomic_files import write_atomically
from bbrgym.runs.checksum import add_checksum, with_onnx_checksum
from bbrgym.schema import shown
from bbrgym.worlds import FAST_WORLD

Format = Literal["onnx", "torchscript", "c", "bpf"]
_SUFFIXES = {"onnx": ".onnx", "torchscript": ".pt", "c": ".h", "bpf": ".bpf.o"}
_EXAMPLES = 2  # environments in the inputs for tracing; a tracer takes a dimension of 1 for a constant


def export(
    run_dir: str | Path,
    format: str = "onnx",  # noqa: A002 - the command's name for it
    *,
    checkpoint: str = "best",
    output: str | Path | None = None,
) -> Path:
    """Export the actor of a trained agent.

    Args:
        run_dir: run folder of `bbrgym train`.
        format: ``onnx``, ``torchscript``, ``c`` or ``bpf``.
        checkpoint: ``best`` or ``last``.
        output: file to write. Default: ``RUN_DIR/exported/<agent>.onnx`` (``.pt``, ``.h``,
            ``.bpf.o``).

    Returns:
        Path of the file.

    Raises:
        ConfigError: there is no such agent, it has no network, the format is unknown or cannot express it.
        MissingExtraError: a package that the format needs is not installed.
        OSError: the file cannot be written.
    """
    if format not in get_args(Format):
        raise ConfigError(f"format: is {shown(format)}; {nearest(str(format), get_args(Format))}")
    agent, arguments = load_agent(run_dir, checkpoint)
    make = getattr(agent, "network", None)
    if make is None:
        raise ConfigError(f"{str(run_dir)!r} holds agent {agent.name}, which has no network to export")
    name = f"exported/{agent.name}{_SUFFIXES[format]}"
    path = Path(output) if output is not None else Path(run_dir) / name
    folder = TrainingFolder(Path(run_dir))
    write = partial(write_atomically, path) if output is not None else partial(folder.write_file, name)
    if format in ("c", "bpf"):
        policy = integer_form(agent, arguments)
        content = policy_header(policy).encode() if format == "c" else bpf_object(policy)
        write(lambda path: path.write_bytes(content))
        return path
    network: Network | SamplingNetwork | RecurrentNetwork = make()
    batch = batch_of(1, options_for(agent, **{**arguments, "world": FAST_WORLD}))
    example = network.first_inputs(_EXAMPLES, math.prod(batch.observation.space.shape or ()))
    about = json.dumps(about_agent(agent, checkpoint, arguments))
    with _quiet(), torch.no_grad():
        model = _onnx(network.eval(), example, about) if format == "onnx" else _torchscript(network, example, about)
    write(lambda path: path.write_bytes(model))
    return path


def integer_form(agent: Any, arguments: Mapping[str, Any]) -> IntegerPolicy:
    """Return an agent that has a network, and the arguments of its environment, in integer arithmetic.

    Raises:
        ConfigError: it has no form in integers.
    """
    options = options_for(agent, **{**arguments, "world": FAST_WORLD})
    batch = batch_of(1, options)
    if isinstance(agent, PortfolioAgent):
        return quantise_portfolio(agent, batch, options)
    return quantise(agent.network(), batch, options, agent.name)


def _onnx(network: Any, example: tuple[torch.Tensor, ...], about: str) -> bytes:
    try:
        import onnx  # noqa: F401 - PyTorch's exporter imports both
        import onnxscript  # noqa: F401
    except ModuleNotFoundError as error:
        raise MissingExtraError("format onnx", "onnx", error) from error
    count = torch.export.Dim("N")
    axes = tuple({tensor.dim() - 2 if tensor.dim() > 1 else 0: count} for tensor in example)
    program = torch.onnx.export(
        network,
        example,
        dynamo=True,
        dynamic_shapes=axes,
        input_names=list(network.inputs),
        output_names=list(network.outputs),
        verbose=False,
    )
    if program is None:
        raise RuntimeError("PyTorch gave no ONNX program")
    model = program.model_proto
    model.metadata_props.add(key=KEY, value=about)
    return with_onnx_checksum(model.SerializeToString())


def _torchscript(network: Any, example: tuple[torch.Tensor, ...], about: str) -> bytes:
    traced: Any = torch.jit.trace(network, example)  # type: ignore[no-untyped-call]
    file = io.BytesIO()  # given a path, PyTorch ends the process where the disk is full
    torch.jit.save(traced, file, _extra_files={f"{KEY}.json": about})
    add_checksum(file)
    return file.getvalue()


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the warnings of PyTorch's exporters about PyTorch's internals."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)
