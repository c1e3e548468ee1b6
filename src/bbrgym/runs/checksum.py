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

_ZIP_MARK = b"bbrgym sha256 "  # before the checksum, as the comment
_ONNX_MARK = b"\x72\x51\x0a\x0dbbrgym sha256\x12\x40"  # field 14 of ModelProto: a key, and a value of 64 bytes
_DIGEST_BYTES = 64
_END = b"PK\x05\x06"  # of the record at a zip file's end, whose last two bytes are the length of the comment behind it
_END_BYTES = 22
_PART_BYTES = 2**20


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
    file.write(struct.pack("<H", len(_ZIP_MARK) + _DIGEST_BYTES))
    size = file.tell()
    digest = _digest_of(file, size)
    file.seek(size)
    file.write(_ZIP_MARK + digest)


def with_onnx_checksum(model: bytes) -> bytes:
    """Return a serialised ONNX model with its checksum."""
    return model + _ONNX_MARK + hashlib.sha256(model).hexdigest().encode()


def check_checksum(file: BinaryIO, path: Path, *, is_needed: bool = True) -> None:
    """Check the checksum of a file, and go back to its beginning.

    Raises:
        FileError: the checksum is wrong, or missing and needed.
    """
    size = file.seek(0, 2) - _DIGEST_BYTES
    file.seek(max(0, size - len(_ONNX_MARK)))
    end = file.read()
    mark = next((one for one in (_ZIP_MARK, _ONNX_MARK) if end[:-_DIGEST_BYTES].endswith(one)), None)
    if mark is None and is_needed:
        raise FileError(path, "it is damaged, or bbrgym has not written it: it ends with no checksum")
    if mark is not None and _digest_of(file, size - len(mark)) != end[-_DIGEST_BYTES:]:
        raise FileError(path, "it is damaged: its checksum does not fit")
    file.seek(0)


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
