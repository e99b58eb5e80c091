"""`surecall explain`: what becomes of a raw response or a text, and why."""

from typing import Any, BinaryIO

import click
import msgspec

from surecall.cli.explanation import explain, render
from surecall.values.errors import ConfigError
from surecall.values.trace import safe_text
from surecall.wire.messages import decode


@click.command()
@click.argument("file", type=click.File("rb"))
@click.option("--tools", type=click.File("rb"), help="JSON list of the tools that were offered.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(*, file: BinaryIO, tools: BinaryIO | None, as_json: bool) -> int:
    """Explain a raw response, or a text, in FILE (or - for standard input).

    Tells which calls are in it, what was healed, and why something is not taken for a call.
    """
    explanation = explain(file.read(), _tools_in(tools))
    if as_json:
        click.echo(msgspec.json.encode(explanation).decode())
    else:
        click.echo("\n".join(map(safe_text, render(explanation).split("\n"))))
    return 0


def _tools_in(file: BinaryIO | None) -> list[Any]:
    if file is None:
        return []
    try:
        tools = decode(file.read())
    except ValueError:
        raise ConfigError("--tools is not JSON") from None
    if not isinstance(tools, list):
        raise ConfigError("--tools must be a JSON list of tool definitions")
    return tools
