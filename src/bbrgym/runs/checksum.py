# SPDX-License-Identifier: GPL-2.0-only
"""Checksums in files of trained models, which neither PyTorch nor ONNX Runtime has for what it reads.

A zip file, such as one of PyTorch's or Stable-Baselines3's, has its SHA-256 as its comment, an ONNX file as its last
entry of metadata. So other programs read the files as before.
"""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path
from typing import BinaryIO

from bbrgym.untrusted_files import FileError

_MARK = b"bbrgym sha256 "
_BYTES = len(_MARK) + 64
_END = b"PK\x05\x06"  # of the record at a zip file's end, whose last two bytes are the length of the comment behind it
_END_BYTES = 22
_PART_BYTES = 2**20
_ONNX_MARK = b"\x72\x51\x0a\x0dbbrgym sha256\x12\x40"  # field 14 of ModelProto: a key, and a value of 64 bytes
_ONNX_BYTES = len(_ONNX_MARK) + 64
_WRONG = "it is damaged: its checksum does not fit"
_MISSING = "it is damaged, or bbrgym has not written it: it ends with no checksum"


def add_checksum(file: BinaryIO) -> None:
    """Add the checksum to a zip file without a comment, open to read and write.

    Raises:
        ValueError: it is not a zip file without a comment.
    """
    file.seek(-_END_BYTES, 2)
    record = file.read()
    if not record.startswith(_END) or record[-2:] != b"\0\0":
        raise ValueError("no zip file without a comment")
    file.seek(-2, 2)
    file.write(struct.pack("<H", _BYTES))
    size = file.tell()
    digest = _digest_of(file, size)
    file.seek(size)
    file.write(_MARK + digest)


def with_onnx_checksum(model: bytes) -> bytes:
    """Return a serialised ONNX model with its checksum."""
    return model + _ONNX_MARK + hashlib.sha256(model).hexdigest().encode()


def check_onnx_checksum(model: bytes, path: Path, *, is_needed: bool) -> None:
    """Check a serialised ONNX model that `with_onnx_checksum` has returned; another one has none unless it is needed.

    Raises:
        FileError: the model has another checksum, or none that is needed.
    """
    content, end = model[:-_ONNX_BYTES], model[-_ONNX_BYTES:]
    if end.startswith(_ONNX_MARK):
        if with_onnx_checksum(content) != model:
            raise FileError(path, _WRONG)
    elif is_needed:
        raise FileError(path, _MISSING)


def check_checksum(file: BinaryIO, path: Path) -> None:
    """Check a file that `add_checksum` has seen, and go back to its beginning.

    Raises:
        FileError: the file has no checksum or another one.
    """
    size = file.seek(0, 2) - _BYTES
    file.seek(max(0, size))
    comment = file.read()
    if size < _END_BYTES or not comment.startswith(_MARK):
        raise FileError(path, _MISSING)
    if _MARK + _digest_of(file, size) != comment:
        raise FileError(path, _WRONG)
    file.seek(0)


def has_checksum(file: BinaryIO) -> bool:
    """Return whether a file ends with a checksum, right or wrong, and go back to its beginning."""
    file.seek(max(0, file.seek(0, 2) - _BYTES))
    found = file.read().startswith(_MARK)
    file.seek(0)
    return found


def _digest_of(file: BinaryIO, size: int) -> bytes:
    digest = hashlib.sha256()
    file.seek(0)
    while size > 0:
        part = file.read(min(size, _PART_BYTES))
        digest.update(part)
        size -= len(part)
        if not part:
            break
    return digest.hexdigest().encode()
