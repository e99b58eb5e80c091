"""GGUF files: what the model in one is called, how it is served, whether it can be a model.

    "GGUF" | version, 4 bytes | tensors, 8 bytes | metadata entries, 8 bytes | metadata, tensors …

All numbers are little-endian. Only the server reads on; what can be told from here is told before
anything is started.
"""

import struct
from pathlib import PurePath
from typing import Final

import msgspec

HEADER_BYTES: Final = 24
MAGIC: Final = b"GGUF"
VERSIONS: Final = (2, 3)
_SUFFIX: Final = ".gguf"
_JOINTS: Final = "._-"
_NAMELESS: Final = "model"
# The least that can describe one: length, one letter, kind and value of a metadata entry; length,
# one letter, number of dimensions, one dimension, kind, place and one byte of a tensor.
_LEAST_ENTRY: Final = 8 + 1 + 4 + 1
_LEAST_TENSOR: Final = 8 + 1 + 4 + 8 + 4 + 8 + 1
MOST_THREADS: Final = 1024
LEAST_CONTEXT, MOST_CONTEXT = 256, 2**22


class Serving(msgspec.Struct, frozen=True, kw_only=True):
    """How a file is served. Port 0 picks a free one."""

    host: str = "127.0.0.1"
    port: int = 0
    threads: int = 2
    context: int = 8192
    starts_within_s: float = 120.0


def model_id(file_name: str) -> str:
    """Return the id of the model in a file: the name without its suffix, fit for any filter."""
    path = PurePath(file_name)
    stem = path.stem if path.suffix.casefold() == _SUFFIX else path.name
    fit = "".join(sign if sign.isalnum() or sign in _JOINTS else "-" for sign in stem)
    return fit.strip("-") or _NAMELESS


def problem_with(header: bytes, size: int) -> str:
    """Say why a file of some size that begins like this cannot be served; blank when it can be."""
    if header[: len(MAGIC)] != MAGIC:
        return "is not a GGUF file"
    if len(header) < HEADER_BYTES:
        return "is cut short: not even the header is complete"
    version, tensors, entries = struct.unpack_from("<IQQ", header, len(MAGIC))
    if version not in VERSIONS:
        known = " and ".join(map(str, VERSIONS))
        return f"is a GGUF file of version {version}, but only {known} can be read"
    if not tensors:
        return "holds no tensors, so it is no model"
    if size < HEADER_BYTES + entries * _LEAST_ENTRY + tensors * _LEAST_TENSOR:
        return f"is cut short: {size} bytes cannot hold the {tensors} tensors it announces"
    return ""
