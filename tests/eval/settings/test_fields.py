"""Tests of `surecall.eval.settings.fields`."""

import struct
from typing import Any

import pytest

from surecall.eval.settings.fields import (
    FIELDS,
    Settings,
    gguf_model_id,
    gguf_problem,
    settings_rows,
)

# The table of settings: each is described once


def test_the_table_describes_every_setting_once() -> None:
    flags = [flag for field in FIELDS.values() for flag in field.flags]
    variables = [name for field in FIELDS.values() for name in field.variables]

    assert tuple(sorted(FIELDS)) == tuple(sorted(Settings.__struct_fields__))
    assert len(flags) == len(set(flags))
    assert len(variables) == len(set(variables))
    assert len(settings_rows()) == len(FIELDS)


@pytest.mark.parametrize("field", FIELDS.values(), ids=lambda field: field.name)
def test_every_setting_but_the_key_has_a_flag_a_variable_and_a_sentence(field: Any) -> None:
    assert bool(field.flags) is (field.name != "api_key")
    assert field.own_variable.startswith("SURECALL_")
    assert field.help
    assert field.is_switch is (
        isinstance(field.default, bool) or field.name == "require_parameters"
    )


# GGUF files: what their models are called, and what can be told from their first bytes


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
    assert gguf_model_id(file_name) == name


@pytest.mark.parametrize("version", [2, 3])
def test_nothing_is_wrong_with_the_beginning_of_a_model(version: int) -> None:
    assert gguf_problem(header(version), SIZE) == ""


@pytest.mark.parametrize(
    ("beginning", "size", "problem"),
    [
        (b"", 0, "is not a GGUF file"),
        (b"<html>" + bytes(30), SIZE, "is not a GGUF file"),
        (header(magic=b"FUGG"), SIZE, "is not a GGUF file"),
        (header()[:23], 23, "the header is incomplete"),
        (header(1), SIZE, "version 1; only versions 2 and 3 are supported"),
        (header(0x03000000), SIZE, "version 50331648"),
        (header(tensors=0), SIZE, "has no tensors"),
        (header(tensors=2, entries=5), 24 + 5 * 14 + 2 * 34 - 1, "161 bytes cannot hold its 2"),
        (header(tensors=2**64 - 1), SIZE, "is truncated"),
    ],
)
def test_what_cannot_be_a_model_is_told_by_its_first_bytes_and_its_size(
    beginning: bytes, size: int, problem: str
) -> None:
    assert problem in gguf_problem(beginning, size)


def test_the_smallest_size_that_can_be_a_model_is_believed() -> None:
    assert gguf_problem(header(tensors=2, entries=5), 24 + 5 * 14 + 2 * 34) == ""
