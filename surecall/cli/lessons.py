"""`surecall lessons`: what endpoints have refused, and how requests are adapted to it."""

from pathlib import Path
from typing import BinaryIO

import click

from surecall.cli.console import (
    NOTHING,
    ExitCode,
    print_columns,
    print_error,
    print_exact,
    print_note,
    print_text,
)
from surecall.runtime.learned_lessons import (
    FILE_VARIABLE,
    LessonStore,
    export_lessons,
    import_lessons,
    lesson_store,
)
from surecall.values.errors import ConfigError
from surecall.values.text import quantity
from surecall.wire.request_adaptations import describe_lesson

_DAY_S = 24 * 3600


@click.group(invoke_without_command=True, no_args_is_help=False)
@click.pass_context
def command(context: click.Context) -> ExitCode | None:
    """List what endpoints have refused, and how requests are adapted.

    A lesson is learned from a rejected request and used for 30 days. Lessons are stored in your
    cache directory. Set SURECALL_LESSONS to another file, or to off to store none.
    """
    return _list_lessons() if context.invoked_subcommand is None else None


@command.command("export")
@click.option(
    "-o", "target", type=click.Path(dir_okay=False, path_type=Path), help="File to write."
)
def export_command(target: Path | None) -> ExitCode:
    """Write all lessons as JSON."""
    data = export_lessons(_require_store().read())
    if target is None:
        print_exact(data.decode())
    else:
        target.write_bytes(data)
    return 0


@command.command("import")
@click.argument("source", metavar="FILE", type=click.File("rb"))
def import_command(source: BinaryIO) -> ExitCode:
    """Add the lessons of an exported file."""
    lessons = import_lessons(source.read())
    _require_store().add(lessons)
    print_text(f"imported {quantity(len(lessons), 'lesson')}")
    return 0


@command.command("clear")
@click.option("--base-url", "endpoint", metavar="URL", help="Only of this endpoint, as listed.")
@click.option("-m", "--model", help="Only of this model.")
def clear_command(endpoint: str | None, model: str | None) -> ExitCode:
    """Forget lessons: all, or those of an endpoint or model."""
    count = _require_store().remove(endpoint, model)
    print_text(f"removed {quantity(count, 'lesson')}")
    return 0 if count else NOTHING


def _list_lessons() -> ExitCode:
    store = lesson_store(place=True)
    if store is None:
        return print_error(f"{FILE_VARIABLE} is off: no lessons are stored", NOTHING)
    lessons = store.read()
    if not lessons:
        print_note(f"no endpoint has refused a request yet ({store.path})")
        return 0
    now = store.clock()
    rows = [
        (each.endpoint, each.model, describe_lesson(each.lesson), _age_text(now - each.learned_at))
        for each in lessons
    ]
    print_columns(("endpoint", "model", "adaptation", "learned"), rows)
    return 0


def _age_text(seconds: float) -> str:
    days = int(seconds // _DAY_S)
    return "today" if days == 0 else f"{quantity(days, 'day')} ago"


def _require_store() -> LessonStore:
    store = lesson_store(place=True)
    if store is None:
        raise ConfigError(f"{FILE_VARIABLE} is off: unset it, or set it to a file")
    return store
