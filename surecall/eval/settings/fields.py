"""The settings of an evaluation, with their defaults, flags, environment variables, and help.

Also checks the header of GGUF files before a server is started:

    "GGUF" | version, 4 bytes | tensors, 8 bytes | metadata entries, 8 bytes | metadata, tensors …

All numbers are little-endian.
"""

import struct
from pathlib import PurePath
from typing import Any, Final

import msgspec

from surecall.eval.settings import value_parsers as read
from surecall.eval.settings.value_parsers import Gate, Parser, Shard
from surecall.settings.capabilities import canonical_provider
from surecall.settings.config import ToolFailurePolicy, ToolUseMode
from surecall.settings.connection import AUTO_API, UPSTREAM_APIS
from surecall.values.family import canonical_name
from surecall.values.types import JSON, Secret

HEADER_BYTES: Final = 24
GGUF_MAGIC: Final = b"GGUF"
GGUF_VERSIONS: Final = (2, 3)
# Minimum sizes. A metadata entry: name length, one letter, type, and value. A tensor: name length,
# one letter, number of dimensions, one dimension, type, offset, and one byte of data.
_MIN_ENTRY_BYTES: Final = 8 + 1 + 4 + 1
_MIN_TENSOR_BYTES: Final = 8 + 1 + 4 + 8 + 4 + 8 + 1
MAX_THREADS: Final = 1024
MIN_CONTEXT, MAX_CONTEXT = 256, 2**22


class ServingOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How to serve a file. Port 0 picks a free one."""

    host: str = "127.0.0.1"
    port: int = 0
    threads: int = 2
    context: int = 8192
    starts_within_s: float = 120.0


def gguf_model_id(file_name: str) -> str:
    """Return the model id of a file: its name without suffix, with characters valid in filters."""
    path = PurePath(file_name)
    stem = path.stem if path.suffix.casefold() == ".gguf" else path.name
    fit = "".join(sign if sign.isalnum() or sign in "._-" else "-" for sign in stem)
    return fit.strip("-") or "model"


def gguf_problem(header: bytes, size: int) -> str:
    """Return why a file with this header and size cannot be served; blank if it can."""
    if header[: len(GGUF_MAGIC)] != GGUF_MAGIC:
        return "is not a GGUF file"
    if len(header) < HEADER_BYTES:
        return "is truncated: the header is incomplete"
    version, tensors, entries = struct.unpack_from("<IQQ", header, len(GGUF_MAGIC))
    if version not in GGUF_VERSIONS:
        known = " and ".join(map(str, GGUF_VERSIONS))
        return f"is a GGUF file of version {version}; only versions {known} are supported"
    if not tensors:
        return "has no tensors, so it is not a model"
    if size < HEADER_BYTES + entries * _MIN_ENTRY_BYTES + tensors * _MIN_TENSOR_BYTES:
        return f"is truncated: {size} bytes cannot hold its {tensors} tensors"
    return ""


# `Settings` has the values and defaults. `FIELDS` has the parser and help of each setting; flags,
# variables, files, and documentation are generated from it.

OWN_PREFIX, ROUTER_PREFIX = "SURECALL_", "OPENROUTER_"
LLAMA: Final = "llama_cpp"
_STABLE, _ALL = "stable", "all"
# A value that users cannot set: zero and less mean no limit.
_NOT_SET: Final = -1.0
_CLIENT_TIMEOUT_S: Final = 120.0
_DEFAULT_SERVING: Final = ServingOptions()
# A CPU takes minutes for a reply that takes a data center seconds.
_LOCAL_TIMEOUT_S: Final = 600.0


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of an evaluation. The API key is never shown or stored.

    `gguf` also selects the presets and the one model of the file. `local` as the upstream provider
    means the endpoint, since no router has a provider of that name.
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
    api: str = AUTO_API
    api_prefix: str = "/v1"
    endpoint: str = ""
    gguf: str = ""
    threads: int = _DEFAULT_SERVING.threads
    context: int = _DEFAULT_SERVING.context
    http_referer: str = ""
    x_title: str = ""
    client_timeout: float | None = _NOT_SET
    open_timeout: float | None = 10.0
    read_timeout: float | None = None
    # Requests
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
    # Verdicts
    bar: float = 90.0
    fail_under: Gate | None = None
    reference: str = ""
    against: str = ""
    # Output
    output_dir: str = ".surecall"
    report_dir: str = ""
    verbose: int = 1

    def __post_init__(self) -> None:
        """Set the defaults that depend on other settings."""
        set_field = msgspec.structs.force_setattr
        if self.client_timeout == _NOT_SET:
            timeout = _LOCAL_TIMEOUT_S if self.gguf else _CLIENT_TIMEOUT_S
            set_field(self, "client_timeout", timeout)
        if tuple(map(canonical_name, self.provider_only)) == (read.LOCAL,):
            set_field(self, "provider_only", ())
            set_field(self, "endpoint", self.endpoint or read.LOCAL)
        if self.gguf and canonical_provider(self.endpoint) in {"", read.LOCAL, LLAMA}:
            set_field(self, "endpoint", read.LOCAL)
        if self.gguf and self.model_filter == _STABLE:
            set_field(self, "model_filter", _ALL)


class SettingField(msgspec.Struct, frozen=True, kw_only=True):
    """How to set one setting. `shapes` means that it affects the results of trials.

    Its variable has the prefix SURECALL_; with `router` also OPENROUTER_, or, with `bare`, none.
    A blank variable counts as unset unless `blank` is true.
    """

    name: str
    group: str
    parse: Parser
    help: str
    flags: tuple[str, ...]
    metavar: str = ""
    variable: str = ""
    router: bool = True
    bare: bool = False
    blank: bool = False
    shapes: bool = False

    @property
    def default(self) -> Any:
        """The default value."""
        return _DEFAULTS[self.name]

    @property
    def is_switch(self) -> bool:
        """Whether it is a boolean."""
        return self.parse is read.parse_switch

    @property
    def suffix(self) -> str:
        """The name of the variable without its prefix."""
        return self.variable or self.name.upper()

    @property
    def own_variable(self) -> str:
        """The variable with the prefix SURECALL_, which takes precedence."""
        return OWN_PREFIX + self.suffix

    @property
    def router_variable(self) -> str:
        """The variable that comes second; blank if there is none."""
        if self.bare:
            return self.suffix
        return ROUTER_PREFIX + self.suffix if self.router else ""

    @property
    def variables(self) -> tuple[str, ...]:
        """All variables that set it, by precedence."""
        return tuple(name for name in (self.own_variable, self.router_variable) if name)


_DEFAULTS: Final[dict[str, Any]] = msgspec.structs.asdict(Settings())
_VARIABLES: Final = {
    "llm_options_defaults": "LLM_OPTIONS_DEFAULTS_JSON",
    "request_overrides": "REQUEST_OVERRIDES_JSON",
}
_COUNT = read.integer_parser(0)
_FRACTION = read.number_parser(0, 1)
_OVERRIDES = "Overrides the sampling profile and `--llm-options`."


def _make_fields(group: str, *rows: tuple[Any, ...], **common: bool) -> tuple[SettingField, ...]:
    """Return fields from rows of (name, flags and metavar, parser, help, other attributes)."""
    return tuple(
        SettingField(
            name=name,
            group=group,
            parse=parse,
            help=sentence,
            flags=tuple(word for word in option.split() if word.startswith("-")),
            metavar=" ".join(word for word in option.split() if not word.startswith("-")),
            variable=_VARIABLES.get(name, ""),
            **(common | dict.fromkeys(special, True)),
        )
        for name, option, parse, sentence, *special in rows
    )


_SELECT = _make_fields(
    "select",
    (
        "model_filter",
        "-m --model FILTER",
        read.parse_filter,
        "Models: ids, globs, tags, !exclusions; a>b falls back from a to b.",
    ),
    ("sampling_profile_filter", "-p --profile FILTER", read.parse_filter, "Sampling profiles."),
    ("scenarios", "-s --scenario FILTER", read.parse_filter, "Scenarios, groups, or files."),
    (
        "strategy_filter",
        "--strategy FILTER",
        read.parse_filter,
        "raw, baseline, production, contract, guided, guided_contract; both, all.",
    ),
    ("strategy_matrix", "--strategy-matrix", read.parse_switch, "Run baseline and production."),
    ("fallback_matrix", "--fallback-matrix", read.parse_switch, "Run with and without text calls."),
    (
        "sampling_profile_enforce_applicability",
        "--enforce-applicability",
        read.parse_switch,
        "Use a profile only for the models it is meant for.",
    ),
    (
        "production_auto_sampling_profile",
        "--auto-profile",
        read.parse_switch,
        "In production, replace the default profile with the model's recommended one.",
    ),
    (
        "eval_preset",
        "--preset full",
        read.choice_parser("preset", ("full", "all")),
        "Run the whole matrix, except where other settings narrow it.",
    ),
    ("full", "--full", read.parse_switch, "Short for --preset full."),
)
_RUN = _make_fields(
    "run",
    ("trials", "-n --trials N|auto", read.parse_count, "Trials per scenario."),
    ("jobs", "-j --jobs N|auto", read.parse_count, "Concurrent conversations."),
    (
        "empty_response_retry_count",
        "--empty-retries N",
        _COUNT,
        "Extra attempts after a blank reply or a transient failure.",
        "shapes",
    ),
)
_RUN_OWN = _make_fields(
    "run",
    (
        "engine",
        "--engine ENGINE",
        read.parse_engine,
        "Where trials run: local, dask, tls://host:8786.",
    ),
    ("max_cost", "--max-cost DOLLARS", read.parse_positive, "Stop before more than this is spent."),
    ("timeout", "--timeout SECONDS", read.parse_timeout, "Time limit of a trial; 0 means none."),
    ("seed", "--seed N", read.integer_parser(0, 2**63 - 1), "Makes a run repeatable.", "shapes"),
    (
        "shard",
        "--shard I/N",
        read.parse_shard,
        "Run shard I of N; auto/N takes I from the scheduler.",
    ),
    router=False,
)
_ENDPOINT = _make_fields(
    "endpoint",
    ("api_key", "", read.parse_key, "API key. Only from the environment or `.env`."),
    (
        "base_url",
        "--base-url URL",
        read.parse_address,
        "Endpoint URL, or sim for the simulator.",
        "shapes",
    ),
    (
        "api_prefix",
        "--api-prefix PATH",
        read.parse_prefix,
        "Path after the URL, unless the URL ends with it; may be empty.",
        "shapes",
        "blank",
    ),
    (
        "api",
        "--api NAME",
        read.choice_parser("api", UPSTREAM_APIS),
        "API of the endpoint: auto, chat, responses, or messages.",
        "shapes",
    ),
    ("http_referer", "--http-referer URL", read.parse_text, "The header HTTP-Referer."),
    ("x_title", "--x-title TEXT", read.parse_text, "The header X-Title."),
    ("client_timeout", "--client-timeout SECONDS", read.parse_timeout, "Time limit of a request."),
    ("open_timeout", "--open-timeout SECONDS", read.parse_timeout, "Time limit for connecting."),
    ("read_timeout", "--read-timeout SECONDS", read.parse_timeout, "Time limit without data."),
)
_ENDPOINT_OWN = _make_fields(
    "endpoint",
    (
        "endpoint",
        "--endpoint NAME",
        read.parse_endpoint,
        "Provider whose presets to use; see `ls endpoints`. Default: inferred from the URL.",
        "shapes",
    ),
    ("gguf", "--gguf FILE", read.parse_text, "Model file to serve with llama.cpp and evaluate."),
    (
        "threads",
        "--threads N",
        read.integer_parser(1, MAX_THREADS),
        "CPU threads for --gguf; more than the number of cores is slower.",
    ),
    (
        "context",
        "--context TOKENS",
        read.integer_parser(MIN_CONTEXT, MAX_CONTEXT),
        "Context size for --gguf, in tokens.",
        "shapes",
    ),
    router=False,
)
_REQUEST = _make_fields(
    "request",
    ("temperature", "--temperature X", read.number_parser(0), _OVERRIDES),
    ("top_p", "--top-p X", _FRACTION, _OVERRIDES),
    ("top_k", "--top-k N", _COUNT, _OVERRIDES),
    ("min_p", "--min-p X", _FRACTION, _OVERRIDES),
    (
        "llm_options_defaults",
        "--llm-options JSON",
        read.parse_json_object,
        "Request fields that override the sampling profile.",
    ),
    (
        "request_overrides",
        "--request-overrides JSON",
        read.parse_json_object,
        "Fields to merge into every request.",
    ),
    (
        "require_parameters",
        "--require-parameters",
        read.parse_switch,
        "Use only upstream providers that support the sampling values; on if a profile sets any.",
    ),
    ("provider_only", "--provider NAMES", read.parse_names, "Use only these upstream providers."),
    (
        "provider_order",
        "--provider-order NAMES",
        read.parse_names,
        "Prefer these upstream providers.",
    ),
    (
        "provider_ignore",
        "--provider-ignore NAMES",
        read.parse_names,
        "Avoid these upstream providers.",
    ),
    ("route", "--route NAME", read.parse_text, "The router's `route`."),
    (
        "transforms",
        "--transforms NAMES",
        read.parse_transforms,
        "The router's transforms, or none.",
    ),
    shapes=True,
)
_TOOLS = _make_fields(
    "tools",
    (
        "tool_use_mode",
        "--tool-use-mode MODE",
        read.choice_parser("mode", ToolUseMode),
        "enforced, relaxed, or disabled.",
    ),
    (
        "tool_failure_policy",
        "--tool-failure-policy POLICY",
        read.choice_parser("policy", ToolFailurePolicy),
        "fatal or tolerated.",
    ),
    ("tool_allowlist", "--tool-allowlist NAMES", read.parse_allowlist, "The only tools to expose."),
    (
        "tool_calling_fallback_retry_count",
        "--fallback-retries N",
        _COUNT,
        "Retries without tools after a failed request.",
    ),
    (
        "enable_content_tag_tool_call_fallback",
        "--text-calls",
        read.parse_switch,
        "Parse tool calls in the text of every model.",
    ),
    ("fix_empty_final", "--fix-empty-final", read.parse_switch, "Re-prompt after an empty answer."),
    shapes=True,
)
_GATE = _make_fields(
    "gate",
    ("bar", "--bar PERCENT", read.parse_percent, "Pass rate that a model needs to be fit for use."),
    (
        "fail_under",
        "--fail-under PERCENT",
        read.parse_gate,
        "Exit 1 if the pass rate's lower bound is below this; 90:observed uses the rate itself.",
    ),
    ("reference", "--reference ENDPOINT", read.parse_text, "Endpoint to compare others with."),
    (
        "against",
        "--against RUN",
        read.parse_filter,
        "Exit 1 if worse than this run; with --reference, if these endpoints are worse.",
    ),
    router=False,
)
_OUTPUT_OWN = _make_fields(
    "output",
    ("output_dir", "--runs DIR", read.parse_text, "Directory where runs are kept."),
    router=False,
)
_OUTPUT = _make_fields(
    "output",
    ("report_dir", "--report-dir DIR", read.parse_text, "Run directory to report on."),
    (
        "verbose",
        "--verbosity N",
        read.parse_verbosity,
        "0 silent, 1 progress, 2 everything.",
        "bare",
    ),
)

FIELDS: Final = {
    field.name: field
    for group in (
        *(_SELECT, _RUN, _RUN_OWN, _ENDPOINT, _ENDPOINT_OWN),
        *(_REQUEST, _TOOLS, _GATE, _OUTPUT_OWN, _OUTPUT),
    )
    for field in group
}


def settings_rows() -> list[tuple[str, str, str, str, str]]:
    """Return a row for each setting: name, flags, variables, default, help."""
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
