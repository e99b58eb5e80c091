"""GGUF files: what their models are called, and what can be told from their first bytes."""

import struct

import pytest

from surecall.runtime.gguf import model_id, problem_with

SIZE = 10_000


def header(version: int = 3, tensors: int = 2, entries: int = 5, magic: bytes = b"GGUF") -> bytes:
    return magic + struct.pack("<IQQ", version, tensors, entries)


@pytest.mark.parametrize(
    ("file_name", "name"),
    [
        ("models/Qwen2.5-0.5B-Instruct-Q4_K_M.gguf", "Qwen2.5-0.5B-Instruct-Q4_K_M"),
        ("model.v2.GGUF", "model.v2"),
        ("sha256-0123.v2", "sha256-0123.v2"),
        ("my model, *new*.gguf", "my-model---new"),
        ("größe.gguf", "größe"),
        ("\ud800.gguf", "model"),
        ("!.gguf", "model"),
    ],
)
def test_a_model_is_called_by_its_file_without_what_a_filter_would_misread(
    file_name: str, name: str
) -> None:
    assert model_id(file_name) == name


@pytest.mark.parametrize("version", [2, 3])
def test_nothing_is_wrong_with_the_beginning_of_a_model(version: int) -> None:
    assert problem_with(header(version), SIZE) == ""


@pytest.mark.parametrize(
    ("beginning", "size", "problem"),
    [
        (b"", 0, "is not a GGUF file"),
        (b"<html>" + bytes(30), SIZE, "is not a GGUF file"),
        (header(magic=b"FUGG"), SIZE, "is not a GGUF file"),
        (header()[:23], 23, "not even the header is complete"),
        (header(1), SIZE, "version 1, but only 2 and 3 can be read"),
        (header(0x03000000), SIZE, "version 50331648"),
        (header(tensors=0), SIZE, "holds no tensors"),
        (header(tensors=2, entries=5), 24 + 5 * 14 + 2 * 34 - 1, "161 bytes cannot hold the 2"),
        (header(tensors=2**64 - 1), SIZE, "is cut short"),
    ],
)
def test_what_cannot_be_a_model_is_told_by_its_first_bytes_and_its_size(
    beginning: bytes, size: int, problem: str
) -> None:
    assert problem in problem_with(beginning, size)


def test_the_smallest_size_that_can_be_a_model_is_believed() -> None:
    assert problem_with(header(tensors=2, entries=5), 24 + 5 * 14 + 2 * 34) == ""
