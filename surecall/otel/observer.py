"""The observer: events of many runs in, their spans out."""

from collections import deque
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from opentelemetry.trace import TracerProvider, get_tracer

from surecall.otel.attributes import Attributes, of_endpoint, text
from surecall.otel.spans import Manner, RunSpans
from surecall.runtime.redaction import Redactor
from surecall.values.errors import ConfigError
from surecall.values.events import Event, RunStartEvent
from surecall.values.types import Secret
from surecall.values.version import __version__

# The last release of the conventions that has those for GenAI; they are developed further in a
# repository of their own, which has released nothing yet. All that is told here is in both.
SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.41.1"
# Of runs whose events are handed over by hand nobody says that they will never end.
MOST_UNENDED = 10_000
# Programs have few endpoints, and many runs.
_served_by: Final = lru_cache(maxsize=64)(of_endpoint)


class OpenTelemetry:
    """An observer that tells runs as spans, by the GenAI conventions of OpenTelemetry.

        ToolLoopRunner(client=…, model=…, tools=[…], observers=[OpenTelemetry()])

    Spans go to `tracer_provider`, or to the one that the program has set. What was said is told
    only with `content`. `agent` is the name of what runs here, for the names of its spans. The
    provider is known by its address; `provider` is for one that has no well-known address.

    One observer serves any number of runs at once. The spans of a run are below the span that is
    the current one where it begins.
    """

    def __init__(
        self,
        tracer_provider: TracerProvider | None = None,
        *,
        content: bool = False,
        agent: str = "",
        provider: str = "",
    ) -> None:
        for name, given in {"agent": agent, "provider": provider}.items():
            if not isinstance(given, str):
                raise ConfigError(f"OpenTelemetry: {name} is a text, not {type(given).__name__}")
        self._tracer = get_tracer("surecall", __version__, tracer_provider, SCHEMA_URL)
        self._agent = text(agent)
        self._content = content
        self._provider = text(provider)
        self._entered: dict[str, Mapping[str, object]] = {}
        self._runs: dict[str, RunSpans] = {}
        self._by_hand: deque[str] = deque()

    def run_entered(self, run_id: str, clients: Mapping[str, object]) -> None:
        """Know that a run begins here and now, and whom it may ask."""
        self._entered[run_id] = clients

    def run_left(self, run_id: str, error: type[BaseException] | None) -> None:
        """End the spans of a run that goes no further; it may have been cancelled."""
        self._entered.pop(run_id, None)
        self._cut_short(run_id, "" if error is None else error.__qualname__)

    def __call__(self, event: Event) -> None:
        """Tell one event."""
        if isinstance(event, RunStartEvent):
            self._begin(event)
            return
        spans = self._runs.get(event.run_id)
        if spans is not None and spans.hear(event):
            self._runs.pop(event.run_id, None)

    def _begin(self, start: RunStartEvent) -> None:
        self._cut_short(start.run_id, "")
        live = start.run_id in self._entered
        clients = self._entered.get(start.run_id, {})
        spans = RunSpans(self._manner(clients), start, live=live)
        if not spans.is_real:
            return
        self._runs[start.run_id] = spans
        if not live:
            self._by_hand.append(start.run_id)
            if len(self._by_hand) > MOST_UNENDED:
                self._cut_short(self._by_hand.popleft(), "")

    def _manner(self, clients: Mapping[str, object]) -> Manner:
        def served_by(endpoint: str) -> Attributes:
            address = getattr(clients.get(endpoint), "base_url", "")
            return _served_by(str(address), self._provider)

        redactor = None
        if self._content:
            redactor = Redactor([key for each in clients.values() for key in secrets_of(each)])
        return Manner(self._tracer, self._agent, served_by, redactor)

    def _cut_short(self, run_id: str, error: str) -> None:
        spans = self._runs.pop(run_id, None)
        if spans is not None:
            spans.close(error)


def secrets_of(client: object) -> tuple[Secret | str, ...]:
    """Return what must not be told of a client, which need not be one of ours."""
    match getattr(client, "secrets", None) or getattr(client, "api_key", None):
        case None | "":
            return ()
        case Secret() | str() as key:
            return (key,)
        case several:
            return tuple(several)
