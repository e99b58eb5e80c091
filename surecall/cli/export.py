"""`surecall export`: every report of a run, made again from its store alone."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, TypeAlias

import click
import msgspec

from surecall.cli.common import note, say, say_exactly
from surecall.cli.listing import count, json_line, visible
from surecall.cli.options import settled
from surecall.cli.stored import advice_of, opened, write_stored
from surecall.eval.analysis.recommend import original_row, plain_row
from surecall.eval.report.common import Results
from surecall.eval.report.files import results_in, write_trials
from surecall.eval.report.junit import junit
from surecall.eval.report.markdown import report
from surecall.eval.report.pretty import pretty
from surecall.eval.report.summary_json import TRIALS_FOLDER, document
from surecall.eval.storage.run_directories import LATEST, typed_errors, write_file
from surecall.eval.storage.store import Store
from surecall.values.errors import ConfigError

STANDARD_OUTPUT: Final = "-"
_TRIALS: Final = "trials"
Write: TypeAlias = Callable[[Store, Results], str]


@click.command()
@click.argument("run", default=LATEST)
@click.option(
    "--format",
    "form",
    type=click.Choice(["json", "jsonl", "markdown", "junit", _TRIALS]),
    help="Only this: one document, or a file for each trial.",
)
@click.option("-o", "--output", metavar="PATH", help="File to write, - to print; else a directory.")
@click.option("--runs", metavar="DIR", help="Where runs are kept, if not in the usual place.")
def command(*, run: str, form: str | None, output: str | None, runs: str | None) -> int:
    """Write the reports of RUN again, all of them or one format, from what is stored.

    RUN is a name, a part of one, a path, or latest. Without --format, everything goes into the
    run's directory; a single document is printed unless -o names a file.
    """
    base = settled({"output_dir": runs}).settings.output_dir
    with opened(base, run) as store:
        results = results_in(store)
        if form is None or form == _TRIALS:
            _write_files(store, results, output, everything=form is None)
        else:
            _deliver(form, _DOCUMENTS[form](store, results), output or STANDARD_OUTPUT)
    return 0


def _write_files(store: Store, results: Results, output: str | None, *, everything: bool) -> None:
    if output == STANDARD_OUTPUT:
        raise ConfigError("several files cannot be printed; choose one document with --format")
    directory = store.directory if output is None else Path(output)
    with typed_errors(directory):
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    # The trials first: the summary names their files.
    written = write_trials(directory, results, store.trials(), store.trace)
    for path in write_stored(store, results, directory, filed=True) if everything else ():
        say(str(path))
    say(str(directory / TRIALS_FOLDER))
    note(count(written, "trial"))


def _deliver(form: str, text: str, output: str) -> None:
    if output == STANDARD_OUTPUT:
        say_exactly(visible(text, _SPELLINGS[form]).removesuffix("\n"))
        return
    path = Path(output)
    data = text.encode("utf-8", "replace")
    with typed_errors(path):
        if path.exists() and not path.is_file():
            path.write_bytes(data)  # a pipe or a device must not be replaced by a file
        else:
            write_file(path, data)


def _json(store: Store, results: Results) -> str:
    run = {"directory": str(store.directory), "created": store.meta.created}
    advice = [plain_row(each) for each in advice_of(store, results.sheet)]
    return b"".join(pretty(document(results, run=run, recommendations=advice))).decode()


def _jsonl(store: Store, results: Results) -> str:
    lines = (
        {"simulated": results.columns[trial.key.cell].simulated, **msgspec.to_builtins(trial)}
        for trial in store.trials()
    )
    return "".join(f"{json_line(line)}\n" for line in lines)


def _markdown(store: Store, results: Results) -> str:
    return report(results, map(original_row, advice_of(store, results.sheet)))


def _junit(_: Store, results: Results) -> str:
    return "".join(junit(results))


_DOCUMENTS: Final[Mapping[str, Write]] = {
    "json": _json,
    "jsonl": _jsonl,
    "markdown": _markdown,
    "junit": _junit,
}


def _json_spelling(char: str) -> str:
    return json_line(char)[1:-1]


def _entity(char: str) -> str:
    return f"&#{ord(char)};"


# When printed, each format escapes control characters in its own way.
_SPELLINGS: Final[Mapping[str, Callable[[str], str]]] = {
    "json": _json_spelling,
    "jsonl": _json_spelling,
    "markdown": _entity,
    "junit": _entity,
}
