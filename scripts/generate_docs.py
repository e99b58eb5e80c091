"""Writes `docs/reference.md` from the code: codes, settings, presets, transforms, catalogs.

With `--check` it only compares, so that the reference cannot fall behind.
"""

import sys
from collections.abc import Iterable
from pathlib import Path

import msgspec

from surecall.capabilities import PROVIDERS, capabilities_for
from surecall.catalog import ModelCatalog
from surecall.config import FAMILIES
from surecall.errors import ErrorCode
from surecall.help import HELP
from surecall.presets import PRESET, RAW
from surecall.retry import RetryPolicy
from surecall.sampling import SamplingCatalog
from surecall.transport import Limits

TARGET = Path(__file__).parent.parent / "docs" / "reference.md"


def table(head: str, rows: Iterable[Iterable[object]]) -> str:
    """Write a Markdown table; `head` names the columns, separated by bars."""
    columns = [column.strip() for column in head.split("|")]
    lines = [columns, ["---"] * len(columns), *([str(cell) for cell in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def code(value: object) -> str:
    """Write a value as JSON, in code style."""
    return f"`{msgspec.json.encode(value).decode()}`"


def changes(name: str) -> str:
    """Say which settings a preset changes."""
    before, after = RAW.to_mapping(), PRESET[name](RAW).to_mapping()
    return ", ".join(f"`{key}`" for key in after if after[key] != before[key])


def defaults_of(kind: type[msgspec.Struct]) -> list[tuple[str, str]]:
    """List the fields of a settings class with their defaults."""
    return [(f"`{item.name}`", code(item.default)) for item in msgspec.structs.fields(kind)]


def sections() -> Iterable[str]:
    """Write the reference, section by section."""
    yield "# Reference\n\nGenerated from the code by `make docs`. Do not edit."
    settings = RAW.to_mapping()
    yield "## Settings of a run (`ToolCallingConfig`)"
    yield table(
        "setting | default | what it does",
        ((f"`{key}`", code(settings[key]), HELP[key]) for key in settings),
    )
    yield "## Limits of a connection (`Limits`)"
    yield table("limit | default", defaults_of(Limits))
    yield "## Retry of a request (`RetryPolicy`)"
    yield table("setting | default", defaults_of(RetryPolicy))
    yield "## Error codes"
    yield table("code | meaning", ((f"`{item}`", item.meaning) for item in ErrorCode))
    yield "## Presets"
    yield table(
        "preset | what it does | what it changes",
        ((f"`{name}`", PRESET.help(name), changes(name)) for name in PRESET.names),
    )
    yield "## Transforms"
    for field, family in FAMILIES.items():
        yield f"### `{field}`"
        rows = [(f"`{name}`", family.help(name)) for name in family.names]
        yield table("name | what it does", rows)
    yield from catalogs()


def catalogs() -> Iterable[str]:
    """Write what is known about providers, models and sampling."""
    yield "## Providers"
    yield table("provider | what the endpoint takes", map(provider_row, PROVIDERS))
    models = ModelCatalog.builtin().models
    yield "## Models in the catalog"
    yield table(
        "model | workarounds | tags",
        ((f"`{m.id}`", ", ".join(m.workarounds) or "none", ", ".join(m.tags)) for m in models),
    )
    profiles = SamplingCatalog.builtin().profiles
    yield "## Sampling profiles"
    yield table(
        "profile | applies to | options",
        ((f"`{p.id}`", ", ".join(p.applies_to) or "all", code(p.options)) for p in profiles),
    )


def provider_row(name: str) -> tuple[str, str]:
    """Say what a provider's endpoint takes."""
    known = msgspec.structs.asdict(capabilities_for(name))
    return f"`{name}`", ", ".join(key for key, value in known.items() if value is True)


def main() -> int:
    """Write the reference, or say that it is out of date."""
    text = "\n\n".join(sections()) + "\n"
    if "--check" not in sys.argv:
        TARGET.write_text(text, "utf-8")
        return 0
    if TARGET.exists() and TARGET.read_text("utf-8") == text:
        return 0
    print("docs/reference.md is out of date: run `make docs`", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
