"""`surecall eval --reference A --against B`: where it is sent, and what is said at its end."""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec

from surecall.cli.common import note, say
from surecall.cli.listing import say_columns
from surecall.cli.options import dotenv_in, told
from surecall.cli.target import Target, open_target
from surecall.eval.analysis.agreement import Agreement
from surecall.eval.analysis.agreement_words import agreement_sentence
from surecall.eval.report.agreement import EXPLAINED, count_lines, heads, rows
from surecall.eval.running.matrix import Plan
from surecall.eval.running.reference import Candidate, plan_reference, settings_at
from surecall.eval.scenarios.scenario import Scenario
from surecall.eval.settings.endpoints import NamedEndpoint, Variables, endpoints_in
from surecall.eval.settings.keys import Place
from surecall.eval.settings.load import Effective
from surecall.values.errors import ConfigError


def named_endpoints(effective: Effective) -> tuple[NamedEndpoint, ...]:
    """Find the endpoints that the settings name; none without a reference."""
    settings = effective.settings
    if not settings.reference:
        return ()
    if effective.place("base_url") is Place.COMMAND_LINE:
        raise ConfigError("--reference and --against say where to ask: leave out --base-url")
    variables = Variables(os.environ, dotenv_in(Path.cwd()))
    found = endpoints_in(settings.reference, settings.against, variables)
    told(each.warning for each in found if each.warning)
    return found


@contextmanager
def open_reference(
    effective: Effective, named: Sequence[NamedEndpoint], scenarios: tuple[Scenario, ...]
) -> Iterator[tuple[Plan, Target]]:
    """Open every endpoint, and plan the same requests for each of them."""
    settings = effective.settings
    with ExitStack() as stack:
        targets = [stack.enter_context(open_target(settings_at(settings, each))) for each in named]
        candidates = [
            Candidate(each, target.endpoint, target.library)
            for each, target in zip(named, targets, strict=True)
        ]
        planned = plan_reference(settings, scenarios, candidates)
        others = dict(zip((each.model.at for each in planned.cells), targets, strict=True))
        yield planned, msgspec.structs.replace(targets[0], others=others)


def print_agreement(found: Sequence[Agreement], notice: str) -> None:
    """Print the verdict on each endpoint, its figures, and what became of the requests."""
    if notice:
        say(f"{notice}\n")
    for each in found:
        say(agreement_sentence(each))
        say("")
        say_columns(heads(each), rows(each))
        say("")
    for line in count_lines(found):
        say(line)
    note(EXPLAINED.format(reference=found[0].reference))
