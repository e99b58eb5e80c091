"""`surecall sim`: run the simulated provider."""

from fnmatch import fnmatchcase

import click

from surecall.cli.console import (
    NOTHING,
    WRONG_USAGE,
    ExitCode,
    WholeNumber,
    address_options,
    print_columns,
    print_error,
    print_note,
    print_text,
)
from surecall.cli.interrupts import serve_until_interrupted
from surecall.settings.connection import is_loopback
from surecall.simulator.personas.persona import Persona
from surecall.simulator.personas.persona_catalog import DEFAULT_PERSONA, PERSONAS
from surecall.simulator.server import RequestViolation, Simulator


@click.command()
@address_options(8089)
@click.option(
    "--seed",
    type=WholeNumber(0, 2**63 - 1),
    default=0,
    show_default=True,
    help="Random seed; the same seed and requests give the same replies.",
)
@click.option(
    "--persona-default",
    metavar="NAME",
    default=DEFAULT_PERSONA,
    show_default=True,
    help="Persona for model names that do not begin with sim/.",
)
@click.option(
    "--list",
    "pattern",
    is_flag=False,
    flag_value="*",
    metavar="[PATTERN]",
    help="List the personas whose name or fault matches a glob or contains a text, and exit.",
)
def command(
    *,
    host: str,
    port: int,
    seed: int,
    persona_default: str,
    public: bool,
    pattern: str | None,
) -> ExitCode:
    """Run a simulated provider that misbehaves on purpose.

    Use it to test agents. The model name of a request selects the persona that replies: sim/clean,
    or one with a fault. Any other name, such as gpt-4o, selects the default persona.
    """
    if pattern is not None:
        return _list_personas(pattern)
    if not public and not is_loopback(host):
        return print_error(
            f"{host} is not loopback: add --public to let the network use the simulator",
            WRONG_USAGE,
        )
    simulator = Simulator(
        seed=seed,
        default=persona_default,
        host=host,
        port=port,
        anywhere=public,
        report=_print_violation,
    )
    return serve_until_interrupted(simulator, lambda: _announce(simulator), port, host)


def _list_personas(pattern: str) -> ExitCode:
    found = [each for each in PERSONAS.values() if _is_match(each, pattern.casefold())]
    if not found:
        return print_error(
            f"no persona or fault matches {pattern!r}; `surecall sim --list` shows all", NOTHING
        )
    print_columns(
        ("persona", "outcome", "summary", "sources"),
        [(each.id, each.outcome, each.summary, ", ".join(each.sources)) for each in found],
    )
    return 0


def _is_match(persona: Persona, pattern: str) -> bool:
    """Whether the name of a persona, or of one of its faults, matches a glob or contains a text."""
    names = (persona.id, *(fault for fault, _ in persona.faults))
    return any(pattern in name or fnmatchcase(name, pattern) for name in names)


async def _announce(simulator: Simulator) -> None:
    personas = f"{len(PERSONAS)} personas, seed {simulator.seed}"
    others = f"; {simulator.default} answers for any model name" if simulator.default else ""
    print_text(
        f"surecall simulator on {simulator.url}/v1 ({personas}){others}; press Ctrl-C to stop"
    )


def _print_violation(violation: RequestViolation) -> None:
    """Print a violation in a request."""
    print_note(f"violation: {violation.persona} {violation.where}: {violation.message}")
