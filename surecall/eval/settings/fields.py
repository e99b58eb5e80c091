"""Every setting of an evaluation, once: its type and default, and how people can set it.

`Settings` holds the values. `FIELDS` says how each is read and what it is for; flags, variables,
files and documentation are all made from that table.
"""

from typing import Any, Final

import msgspec

from surecall.eval.settings import parse as read
from surecall.eval.settings.parse import Gate, Reader, Shard
from surecall.runtime.gguf import LEAST_CONTEXT, MOST_CONTEXT, MOST_THREADS, Serving
from surecall.settings.capabilities import canonical_provider
from surecall.settings.config import ToolFailurePolicy, ToolUseMode
from surecall.values.family import canonical
from surecall.values.types import JSON, Secret

OWN, ROUTER = "SURECALL_", "OPENROUTER_"
LLAMA: Final = "llama_cpp"
_STABLE, _ALL = "stable", "all"
# A value that cannot be given: none or less is read as no limit.
_UNSAID: Final = -1.0
_CLIENT_TIMEOUT_S: Final = 120.0
_SERVING: Final = Serving()
# A CPU alone takes minutes for what a data centre answers in a second.
_LOCAL_TIMEOUT_S: Final = 600.0


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What to evaluate, where, how often, and what counts. The key is never shown or written.

    A file to serve (`gguf`) decides what depends on it: whose presets fit, and that its one model
    is evaluated. `local` among the upstream providers means the endpoint: no router has it.
    """

    # What to run
    model_filter: str = _STABLE
    sampling_profile_filter: str = "default"
    scenarios: str = "default"
    strategy_filter: str = "production"
    strategy_matrix: bool = False
    fallback_matrix: bool = False
    sampling_profile_enforce_applicability: bool = True
    production_auto_sampling_profile: bool = False
    eval_preset: str = ""
    full: bool = False
    # How to run it
    trials: int | str = 10
    jobs: int | str = read.AUTO
    engine: str = read.LOCAL
    max_cost: float | None = None
    timeout: float | None = 600.0
    seed: int = 0
    shard: Shard | None = None
    empty_response_retry_count: int = 1
    # Where
    api_key: Secret | None = None
    base_url: str = ""
    api_prefix: str = "/v1"
    endpoint: str = ""
    gguf: str = ""
    threads: int = _SERVING.threads
    context: int = _SERVING.context
    http_referer: str = ""
    x_title: str = ""
    client_timeout: float | None = _UNSAID
    open_timeout: float | None = 10.0
    read_timeout: float | None = None
    # What is asked
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    llm_options_defaults: JSON = {}
    request_overrides: JSON = {}
    require_parameters: bool | None = None
    provider_only: tuple[str, ...] = ()
    provider_order: tuple[str, ...] = ()
    provider_ignore: tuple[str, ...] = ()
    route: str = ""
    transforms: tuple[str, ...] | None = None
    # Tools
    tool_use_mode: str = "enforced"
    tool_failure_policy: str = "fatal"
    tool_allowlist: tuple[str, ...] | None = None
    tool_calling_fallback_retry_count: int = 0
    enable_content_tag_tool_call_fallback: bool = False
    fix_empty_final: bool = True
    # What counts
    bar: float = 90.0
    fail_under: Gate | None = None
    reference: str = ""
    against: str = ""
    # Output
    output_dir: str = ".surecall"
    report_dir: str = ""
    verbose: int = 1

    def __post_init__(self) -> None:
        """Settle what depends on another setting."""
        settle = msgspec.structs.force_setattr
        if self.client_timeout == _UNSAID:
            settle(self, "client_timeout", _LOCAL_TIMEOUT_S if self.gguf else _CLIENT_TIMEOUT_S)
        if tuple(map(canonical, self.provider_only)) == (read.LOCAL,):
            settle(self, "provider_only", ())
            settle(self, "endpoint", self.endpoint or read.LOCAL)
        if self.gguf and canonical_provider(self.endpoint) in {"", read.LOCAL, LLAMA}:
            settle(self, "endpoint", read.LOCAL)
        if self.gguf and self.model_filter == _STABLE:
            settle(self, "model_filter", _ALL)


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """How one setting is written. `shapes` says that it changes the result of a trial.

    Its variable exists with our own prefix; with `router` also with OpenRouter's, or, if `bare`,
    with none. For most settings a blank variable is no value; `blank` makes it one.
    """

    name: str
    group: str
    parse: Reader
    help: str
    flags: tuple[str, ...]
    metavar: str = "TEXT"
    variable: str = ""
    router: bool = True
    bare: bool = False
    blank: bool = False
    shapes: bool = False

    @property
    def default(self) -> Any:
        """The value if it is not set anywhere."""
        return _DEFAULTS[self.name]

    @property
    def is_switch(self) -> bool:
        """Whether it is either on or off."""
        return self.parse is read.yes_no

    @property
    def suffix(self) -> str:
        """The name of the variable without its prefix."""
        return self.variable or self.name.upper()

    @property
    def own_variable(self) -> str:
        """The variable that comes first."""
        return OWN + self.suffix

    @property
    def router_variable(self) -> str:
        """The variable that comes second; blank when there is none."""
        if self.bare:
            return self.suffix
        return ROUTER + self.suffix if self.router else ""

    @property
    def variables(self) -> tuple[str, ...]:
        """Every variable that sets it, the stronger first."""
        return tuple(name for name in (self.own_variable, self.router_variable) if name)


_DEFAULTS: Final[dict[str, Any]] = msgspec.structs.asdict(Settings())
_VARIABLES: Final = {
    "llm_options_defaults": "LLM_OPTIONS_DEFAULTS_JSON",
    "request_overrides": "REQUEST_OVERRIDES_JSON",
}
_COUNT = read.whole(0)
_SHARE = read.number(0, 1)


def _fields(group: str, *rows: tuple[Any, ...], **common: bool) -> tuple[Field, ...]:
    """Make fields from rows of (name, flags, metavar, reader, help, other attributes)."""
    return tuple(
        Field(
            name=name,
            group=group,
            parse=parse,
            help=sentence,
            flags=tuple(flags.split()),
            metavar=metavar,
            variable=_VARIABLES.get(name, ""),
            **(common | dict.fromkeys(special, True)),
        )
        for name, flags, metavar, parse, sentence, *special in rows
    )


_SELECT = _fields(
    "select",
    ("model_filter", "-m --model", "FILTER", read.expression, "Models: ids, globs, tags, !x; a>b."),
    ("sampling_profile_filter", "-p --profile", "FILTER", read.expression, "Sampling profiles."),
    ("scenarios", "-s --scenario", "FILTER", read.expression, "Scenarios or groups of them."),
    (
        "strategy_filter",
        "--strategy",
        "FILTER",
        read.expression,
        "raw, baseline, production, contract, guided, guided_contract; both, all.",
    ),
    ("strategy_matrix", "--strategy-matrix", "", read.yes_no, "Run baseline and production."),
    ("fallback_matrix", "--fallback-matrix", "", read.yes_no, "Run without and with text calls."),
    (
        "sampling_profile_enforce_applicability",
        "--enforce-applicability",
        "",
        read.yes_no,
        "Give a model only the profiles that are meant for it.",
    ),
    (
        "production_auto_sampling_profile",
        "--auto-profile",
        "",
        read.yes_no,
        "In production, take a model's recommended profile in place of the default one.",
    ),
    (
        "eval_preset",
        "--preset",
        "full",
        read.choice("preset", ("full", "all")),
        "The whole matrix: fills in what nothing else sets.",
    ),
    ("full", "--full", "", read.yes_no, "Short for the preset full."),
)
_RUN = _fields(
    "run",
    ("trials", "-n --trials", "N|auto", read.count_or_auto, "Trials of each scenario."),
    ("jobs", "-j --jobs", "N|auto", read.count_or_auto, "Conversations at the same time."),
    (
        "empty_response_retry_count",
        "--empty-retries",
        "N",
        _COUNT,
        "Extra attempts after a blank reply or a passing failure.",
        "shapes",
    ),
)
_RUN_OWN = _fields(
    "run",
    ("engine", "--engine", "ENGINE", read.engine, "Who runs it: local, dask, tls://host:8786."),
    ("max_cost", "--max-cost", "DOLLARS", read.positive, "Stop before more than this is spent."),
    ("timeout", "--timeout", "SECONDS", read.seconds, "Limit of one trial; 0 means none."),
    ("seed", "--seed", "N", read.whole(0, 2**63 - 1), "Makes a run repeatable.", "shapes"),
    ("shard", "--shard", "I/N", read.shard, "Run one of several parts; auto/N asks the scheduler."),
    router=False,
)
_ENDPOINT = _fields(
    "endpoint",
    ("api_key", "", "", read.key, "The key. Only ever from the environment or `.env`."),
    ("base_url", "--base-url", "URL", read.address, "The endpoint; sim: the simulator.", "shapes"),
    (
        "api_prefix",
        "--api-prefix",
        "PATH",
        read.prefix,
        "Path after the address, never doubled; may be empty.",
        "shapes",
        "blank",
    ),
    ("http_referer", "--http-referer", "URL", read.text, "The header HTTP-Referer."),
    ("x_title", "--x-title", "TEXT", read.text, "The header X-Title."),
    ("client_timeout", "--client-timeout", "SECONDS", read.seconds, "Limit of one request."),
    ("open_timeout", "--open-timeout", "SECONDS", read.seconds, "Limit of connecting."),
    ("read_timeout", "--read-timeout", "SECONDS", read.seconds, "Limit of silence."),
)
_ENDPOINT_OWN = _fields(
    "endpoint",
    (
        "endpoint",
        "--endpoint",
        "NAME",
        read.endpoint,
        "Provider whose presets to use; see `ls endpoints`. Default: inferred from the URL.",
        "shapes",
    ),
    ("gguf", "--gguf", "FILE", read.text, "A model to serve here with llama.cpp, and to measure."),
    (
        "threads",
        "--threads",
        "N",
        read.whole(1, MOST_THREADS),
        "Threads that --gguf computes with; more than there are cores is slower.",
    ),
    (
        "context",
        "--context",
        "TOKENS",
        read.whole(LEAST_CONTEXT, MOST_CONTEXT),
        "Tokens that a conversation with --gguf may have.",
        "shapes",
    ),
    router=False,
)
_REQUEST = _fields(
    "request",
    ("temperature", "--temperature", "X", read.number(0), "Over any profile and JSON."),
    ("top_p", "--top-p", "X", _SHARE, "Over any profile and JSON."),
    ("top_k", "--top-k", "N", _COUNT, "Over any profile and JSON."),
    ("min_p", "--min-p", "X", _SHARE, "Over any profile and JSON."),
    ("llm_options_defaults", "--llm-options", "JSON", read.json_object, "Over any profile."),
    ("request_overrides", "--request-overrides", "JSON", read.json_object, "Into every request."),
    (
        "require_parameters",
        "--require-parameters",
        "",
        read.yes_no,
        "Only upstream providers that honour the sampling values; on when a profile has some.",
    ),
    ("provider_only", "--provider", "NAMES", read.names, "Pin upstream providers."),
    ("provider_order", "--provider-order", "NAMES", read.names, "Prefer upstream providers."),
    ("provider_ignore", "--provider-ignore", "NAMES", read.names, "Avoid upstream providers."),
    ("route", "--route", "NAME", read.text, "The router's `route`."),
    ("transforms", "--transforms", "NAMES", read.transforms, "The router's transforms, or none."),
    shapes=True,
)
_TOOLS = _fields(
    "tools",
    (
        "tool_use_mode",
        "--tool-use-mode",
        "MODE",
        read.choice("mode", ToolUseMode),
        "enforced, relaxed or disabled",
    ),
    (
        "tool_failure_policy",
        "--tool-failure-policy",
        "POLICY",
        read.choice("policy", ToolFailurePolicy),
        "fatal or tolerated",
    ),
    ("tool_allowlist", "--tool-allowlist", "NAMES", read.allowlist, "The only tools to offer."),
    (
        "tool_calling_fallback_retry_count",
        "--fallback-retries",
        "N",
        _COUNT,
        "Requests again without tools after one that failed.",
    ),
    (
        "enable_content_tag_tool_call_fallback",
        "--text-calls",
        "",
        read.yes_no,
        "Read calls from the text of every model.",
    ),
    ("fix_empty_final", "--fix-empty-final", "", read.yes_no, "Ask again for an empty answer."),
    shapes=True,
)
_GATE = _fields(
    "gate",
    ("bar", "--bar", "PERCENT", read.percent, "The pass rate that makes a model fit for use."),
    ("fail_under", "--fail-under", "PERCENT", read.gate, "Exit 1 below: lower bound, or :observed"),
    ("reference", "--reference", "ENDPOINT", read.text, "Endpoint to hold others against."),
    (
        "against",
        "--against",
        "RUN",
        read.expression,
        "Exit 1 when worse than this run; with --reference, when these endpoints are worse.",
    ),
    router=False,
)
_OUTPUT_OWN = _fields(
    "output",
    ("output_dir", "-o --output", "DIR", read.text, "Where runs are kept."),
    router=False,
)
_OUTPUT = _fields(
    "output",
    ("report_dir", "--report-dir", "DIR", read.text, "The run that a report is made of."),
    ("verbose", "--verbosity", "N", read.level, "0 silent, 1 progress, 2 everything", "bare"),
)

FIELDS: Final = {
    field.name: field
    for group in (
        *(_SELECT, _RUN, _RUN_OWN, _ENDPOINT, _ENDPOINT_OWN),
        *(_REQUEST, _TOOLS, _GATE, _OUTPUT_OWN, _OUTPUT),
    )
    for field in group
}


def documentation() -> list[tuple[str, str, str, str, str]]:
    """Return a row for each setting: name, flags, variables, default, what it does."""
    return [
        (
            f"`{field.name}`",
            ", ".join(f"`{flag}`" for flag in field.flags) or "none",
            ", ".join(f"`{name}`" for name in field.variables),
            f"`{msgspec.json.encode(field.default).decode()}`",
            field.help,
        )
        for field in FIELDS.values()
    ]
