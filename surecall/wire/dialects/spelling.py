# ruff: noqa: RUF001 (the wide bars and quotation marks are what models write)
"""The spellings of every dialect, as data: openers, closers, separators, reasoning marks.

A row id names a dialect: A is JSON in an envelope, B a name followed by an object, C tagged
parameters, D Python calls. The opener gives the row of the envelope. The body determines the
grammar, so calls that mix two dialects are parsed, too.

The purpose of each list, the modules that use it, and the effect of a wrong entry:

    OPENERS (marks, call_bodies, streaming)
        Begin a call. Mark an opener weak if it occurs in prose; else prose is parsed as a call.
    CLOSERS (marks, segments, named_calls, call_bodies, tagged_calls, call_values)
        May follow any call and are removed with it. They end in `>` or `]`, or are searched up to a
        tag's `>`. After a name they mean "no arguments": a word of prose here turns names to calls.
    END_TOKENS, VALUE_ENDS, TAGGED_ROWS (marks)
        Closers that may repeat after a call, and closers that must not follow a row. A wrong entry
        re-prompts needlessly or runs a truncated call.
    ORPHANS (marks)
        Beginnings of closers removed from texts without calls. A word here cuts answers.
    HEADER_ENDS, MESSAGE_ENDS (named_calls, recovery)
        End unparsable arguments. If one is missing, a malformed call includes the next one.
    SEPARATORS, NAME_MARKS, ID_MARK, ARGUMENTS_MARK, MESSAGE_MARK (named_calls)
        Separate name, id, and object. All must be in SEPARATORS, else the name ends early.
    STRONG_ROWS (named_calls)
        Rows with unique marks: unknown tools are reported. Other rows require a known tool.
    REACT_MARKS (call_bodies, marks)
        Enclose the name of a ReAct call; each must begin its line.
    BARE_ROWS, PYTHON_ROWS (named_calls, call_bodies)
        Rows with unquoted text or Python calls. A wrong entry turns text to arguments.
    ROWS, DEFAULT_ROWS (call_bodies)
        The row of a body in an envelope of another row. Only affects `RecoveredCall.dialect`.
    TAG_NAMES (call_bodies)
        Known tags whose opener has no `>`. A missing one is not an envelope.
    FUNCTION_STYLE, KEY_VALUE_STYLE, STYLES, PREFIXES, TYPE_HINTS (tagged_calls)
        The spelling of tagged parameters. A missing end mark becomes part of a value.
    NAME_KEYS, ARGUMENT_KEYS, LIST_KEYS, ID_KEYS, METADATA_KEYS (call_bodies)
        The keys of a call as one object. An extra key turns ordinary JSON to calls.
    REASONING_TAGS, REASONING_MARKS (recovery, segments, marks, streaming)
        Delimit reasoning. A call opener here hides its calls; a missing mark exposes reasoning.
    ANSWER_FRAMES, ANSWER_TAGS (recovery, marks)
        Enclose the answer and are removed at the edges of a text. A word here cuts answers.
    CODE_MARKS, FENCES, FENCE_LABELS, QUOTATION_MARKS (segments, marks, named_calls, call_bodies)
        Mark quoted calls. If one is missing, an example in a text runs.
    QUOTING_ELEMENTS, USER_LABELS, MODEL_LABELS, USER_TOKENS, MODEL_TOKENS (segments)
        Elements and lines with quoted speakers. A word of prose here hides the calls after it.
    BUILT_IN_RECIPIENTS, STRIPPED_FINAL_MARK, STRIPPED_LEADS (named_calls, marks, streaming)
        Harmony: recipients that are not tools, and remains of stripped tokens.
    LEAD, DSML, BARS, ANTML (call_bodies, tagged_calls, marks, writers, streaming)
        Shared pieces of marks.
"""

import msgspec

from surecall.wire import text_edges


class Opener(msgspec.Struct, frozen=True):
    """The spelling of an opening mark.

    By `kind`, `wrap` opens an envelope, `head` a call with tagged parameters, and `frame` a harmony
    message; `back` follows the name. A `weak` mark also occurs in prose and requires a known tool.
    """

    stem: str
    row: str
    kind: str = "wrap"
    weak: bool = False
    # How many characters of the stem belong to the body.
    body_chars: int = 0
    # The mark that must end the call and its line, to tell it from a quotation.
    required_closer: str = ""


class TagStyle(msgspec.Struct, frozen=True):
    """The spelling of the tags of a call with tagged parameters."""

    row: str
    head: tuple[str, ...]
    call: tuple[str, ...]
    call_end: tuple[str, ...]
    parameter: tuple[str, ...]
    parameter_end: tuple[str, ...]
    # Other marks that may be left between parameters.
    stray: tuple[str, ...] = ()
    tag_end: str = ">"
    # Whether the format adds a line break before and after each value.
    has_line_breaks: bool = False

    @property
    def value_ends(self) -> tuple[str, ...]:
        """The marks after which a value may have ended."""
        return self.parameter_end + self.parameter

    @property
    def marks(self) -> tuple[str, ...]:
        """All marks of a call."""
        tags = (*self.call, *self.call_end, *self.parameter, *self.parameter_end, *self.stray)
        ends = () if self.tag_end == ">" else (self.tag_end,)
        return (*tags, *ends, "<arg_value") if self.row == "C9" else (*tags, *ends)


LEAD = "]<]minimax[>["
DSML = "DSML"
BARS = "|｜‖"
FENCES = ("```", "~~~")
# Labels of code blocks with calls. Only the first, which Gemini writes, may follow words.
FENCE_LABELS = ("tool_code", "tool_calls", "tool_call", "function_calls", "function_call")
QUOTATION_MARKS = ('"', "'", "“", "‘", "«", "„")
ANTML = "antml:"

# The keys of a call as one JSON object, and the keys allowed beside a name without arguments.
NAME_KEYS = ("name", "tool_name", "function", "tool", "call", "action", "_name")
ARGUMENT_KEYS = ("arguments", "parameters", "args", "input", "tool_input", "action_input")
ID_KEYS = ("id", "tool_call_id", "call_id")
LIST_KEYS = ("tool_calls", "toolCalls", "calls")
METADATA_KEYS = frozenset({*ID_KEYS, "type", "index"})
# What precedes a recipient after special tokens were stripped.
STRIPPED_LEADS = (
    *("assistantanalysis ", "assistantcommentary "),
    *("analysis ", "commentary ", "assistant ", ""),
)


def _spaced_variants(*pieces: str) -> tuple[str, ...]:
    """Return a mark with and without blanks between its pieces."""
    return tuple(dict.fromkeys(("".join(pieces), " ".join(pieces))))


OPENERS = (
    Opener("<tool_call", "A1"),
    Opener("<|tool_call|>", "A2"),
    Opener("<function_call", "A3"),
    Opener("<longcat_tool_call>", "A4"),
    Opener("<TOOLCALL>", "A6"),
    Opener("[TOOL_CALLS]", "A7"),
    Opener("functools[", "A8", body_chars=1),
    Opener("<|python_tag|>", "A9"),
    Opener("<|tools_prefix|>", "A10"),
    Opener("<|START_ACTION|>", "A11"),
    Opener("Action:", "A12", weak=True),
    Opener("Action Input:", "B13", kind="back"),
    Opener("<|action_start|>", "A13"),
    Opener("<|plugin|>", "A13"),
    Opener("<|message_sep|>", "A14"),
    Opener("function call<|role_sep|>", "A14"),
    Opener("<|function_call|>", "A14"),
    Opener("<|message_model|>", "A15"),
    Opener("<|content_invoke_tool_json|>", "A15"),
    Opener("<dots_function_call>", "A16"),
    Opener("<tools>", "A17", weak=True),
    Opener("[TOOL_REQUEST]", "A17", weak=True),
    Opener("[TOOL_CALL]", "A17", required_closer="[/TOOL_CALL]"),
    Opener("function_call:", "A17", weak=True),
    Opener("<｜tool▁calls▁begin｜>", "B2"),
    Opener("<｜tool▁call▁begin｜>", "B2"),
    Opener("<|tool_calls_section_begin|>", "B3"),
    Opener("<|tool_call_section_begin|>", "B3"),
    Opener("<|tool_call_begin|>", "B3"),
    Opener("<|tool_call_argument_begin|>", "B3", kind="back"),
    Opener("<|start|>", "B5", kind="frame"),
    Opener("<|channel|>", "B5", kind="frame"),
    *(Opener(f"{lead}to=functions.", "B5", kind="stripped") for lead in STRIPPED_LEADS),
    Opener("<|tool_call:begin|>", "B6"),
    Opener(">>>", "B8", weak=True),
    Opener("<start_function_call>", "B9"),
    Opener("<|tool_call>", "B10"),
    Opener("<call>", "B10", weak=True),
    Opener("«call ", "B12", weak=True, required_closer="»"),
    Opener("<function=", "C1", kind="head"),
    Opener("<parameter=", "C1", kind="back"),
    Opener("<seed:tool_call>", "C2"),
    Opener("<minimax:tool_call>", "C3"),
    Opener("<invoke", "C4", kind="head"),
    Opener("< invoke", "C4", kind="head"),
    Opener(f"<{ANTML}invoke", "C4", kind="head"),
    Opener(f"<{ANTML}function_calls>", "C4"),
    Opener(DSML, "C5", kind="dsml"),
    Opener("<atem:invoke", "C6", kind="head"),
    Opener("<atem:function_calls>", "C6"),
    Opener("<｜tool_calls_begin｜>", "C7"),
    Opener("<｜tool_call_begin｜>", "C7"),
    Opener("function<｜tool_sep｜>", "C7"),
    Opener("<steptml:invoke", "C7", kind="head"),
    Opener("<function name=", "C8", kind="head"),
    Opener("<functionname=", "C8", kind="head"),
    Opener("<arg_key", "C9", kind="back"),
    *(Opener(mark, "C11") for mark in _spaced_variants("<|open|>", "tools", "<|sep|>")),
    *(Opener(mark, "C11", kind="head") for mark in _spaced_variants("<|open|>", "call")),
    Opener(LEAD, "C12"),
    Opener("<tool_use>", "C13", weak=True),
    Opener("tool_use>", "C13", weak=True),
    Opener("<function>", "C13", weak=True),
    Opener("<|python_start|>", "D2"),
    Opener("<|tool_call_start|>", "D3"),
    *(Opener(f"```{label}", "D6") for label in FENCE_LABELS),
)

FUNCTION_STYLE = TagStyle(
    "C1",
    head=("<function=",),
    call=("<function=", "<tool_call"),
    call_end=("</function",),
    parameter=("<parameter=",),
    parameter_end=("</parameter",),
    has_line_breaks=True,
)
KEY_VALUE_STYLE = TagStyle(
    "C9",
    head=(),
    call=("<tool_call",),
    call_end=("</tool_call",),
    parameter=("<arg_key",),
    parameter_end=("</arg_value",),
    stray=("</arg_key", "<tool_sep"),
)
STYLES = (
    TagStyle(
        "C8",
        head=("<function name", "<functionname"),
        call=("<function",),
        call_end=("</function",),
        parameter=("<param",),
        parameter_end=("</param",),
    ),
    TagStyle(
        "C11",
        head=_spaced_variants("<|open|>", "call"),
        call=_spaced_variants("<|open|>", "call"),
        call_end=_spaced_variants("<|close|>", "call"),
        parameter=_spaced_variants("<|open|>", "argument"),
        parameter_end=_spaced_variants("<|close|>", "argument"),
        tag_end="<|sep|>",
    ),
)
# Prefixes of `invoke` and `parameter`, and the row of each.
PREFIXES = {"": "C4", " ": "C4", ANTML: "C4", "atem:": "C6", "steptml:": "C7"}
# Types that the markup declares for a value.
TYPE_HINTS = {"true": "string", "false": "object"}

# Known names of tags whose opener has no `>`, and the row of each.
TAG_NAMES = {
    "tool_call": "A1",
    "tool_calls": "A5",
    "function_call": "A3",
    "function_calls": "C4",
}

# The row of a body in an envelope of another row; unlisted envelopes keep their row.
ROWS = {
    "json": {"C4": "A5", "C2": "A1", "C3": "A5", "C5": "A5", "C9": "A1", "C11": "A5", "C12": "A1"},
    "function": {"C2": "C2"},
    "function json": {},
    "named": {"A1": "B11", "A5": "B11", "A7": "B4", "A9": "B11", "C4": "B11", "A14": "B2"},
    "python": {"A1": "B11", "A9": "D5", "C4": "D4", "D2": "D2", "D3": "D3", "D6": "D6"},
    "keys": {"A5": "C10"},
}
DEFAULT_ROWS = {"function": "C1", "function json": "B7", "python": "D1", "keys": "C9"}
# Objects of these rows may contain unquoted text.
BARE_ROWS = frozenset({"B9", "B10"})

# The headers of these rows use unique tokens.
STRONG_ROWS = frozenset({"A7", "A14", "A15", "B2", "B3", "B5", "B6", "B9", "B10"})
# Envelopes that may contain Python calls without a list.
PYTHON_ROWS = frozenset({"A9", "C4", "D2", "D3", "D6"})

# Between the pieces of a header: the name follows the first two, an id the third.
NAME_MARKS = ("<|tool_call:name|>", "<｜tool▁sep｜>")
ID_MARK = "[CALL_ID]"
# Before the name and before the object of a call in the ReAct format.
REACT_MARKS = ("Action:", "Action Input:")
ARGUMENTS_MARK = "[ARGS]"
SEPARATORS = (
    *NAME_MARKS,
    ID_MARK,
    ARGUMENTS_MARK,
    "<|tool_call_argument_begin|>",
    "<|tool_call:args|>",
    "<|constrain|>",
    "<|channel|>",
    "<|message|>",
    REACT_MARKS[1],
)

# End a call with such a header even if its object is malformed.
HEADER_ENDS = (
    "<|tool_call_end|>",
    "<｜tool▁call▁end｜>",
    "<|tool_call:end|>",
    "<|call|>",
    "<tool_call|>",
    "[TOOL_CALLS]",
    "[/TOOL_CALLS]",
)

# Tokens that end a turn; they may repeat.
END_TOKENS = text_edges.END_TOKENS
CLOSERS = (
    "</tool_call",
    "</function_call",
    "</function>",
    "</invoke>",
    "</longcat_tool_call>",
    "</TOOLCALL>",
    "</dots_function_call>",
    "</seed:tool_call>",
    "</minimax:tool_call>",
    "</tools>",
    "</tool_use>",
    "</call>",
    "</atem:function_calls>",
    "</atem:invoke>",
    "</steptml:invoke>",
    f"</{ANTML}function_calls>",
    f"</{ANTML}invoke>",
    "</parameter>",
    "</arg_value>",
    "</arg_key>",
    f"{LEAD}</",
    "[/TOOL_CALLS]",
    "[END_TOOL_REQUEST]",
    "[/TOOL_CALL]",
    "<|tools_suffix|>",
    "<|END_ACTION|>",
    "<|action_end|>",
    "<|end_message|>",
    "<|python_end|>",
    "<|tool_call_end|>",
    "<|tool_calls_section_end|>",
    "<|tool_call_section_end|>",
    "<｜tool▁call▁end｜>",
    "<｜tool▁calls▁end｜>",
    "<｜tool_call_end｜>",
    "<｜tool_calls_end｜>",
    "<|tool_call:end|>",
    "<end_function_call>",
    "<tool_call|>",
    *_spaced_variants("<|close|>", "call", "<|sep|>"),
    *_spaced_variants("<|close|>", "tools", "<|sep|>"),
    "<|call|>",
    *END_TOKENS,
)
# End a value in a call with tagged parameters; after the call they are extra.
VALUE_ENDS = ("parameter>", "</arg_value>", "</arg_key>", "</param>")
TAGGED_ROWS = frozenset({"B7", "C1", "C2", "C3", "C4", "C5", "C6", "C7", "C8", "C9", "C10", "C11"})
# The only closers that are removed from a text without calls.
ORPHANS = ("</tool_call", "[/TOOL_CALLS]", "<|tool_call", "<｜tool", "<|call|>", "<|return|>")

# Enclose the answer; removed at the edges of a text.
ANSWER_FRAMES = (
    "<|START_RESPONSE|>",
    "<|END_RESPONSE|>",
    "<|START_TEXT|>",
    "<|END_TEXT|>",
    "<|open|>response<|sep|>",
    "<|close|>response<|sep|>",
    "[END FINAL RESPONSE]",
)

# Enclose only the answer.
ANSWER_TAGS = {
    "<|START_RESPONSE|>": "<|END_RESPONSE|>",
    "<|START_TEXT|>": "<|END_TEXT|>",
    "<|open|>response<|sep|>": "<|close|>response<|sep|>",
}
REASONING_TAGS = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<reasoning>": "</reasoning>",
    "<thought>": "</thought>",
    "<scratch_pad>": "</scratch_pad>",
    "<seed:think>": "</seed:think>",
    "<mm:think>": "</mm:think>",
    "[THINK]": "[/THINK]",
    "◁think▷": "◁/think▷",
    "<|channel>thought": "<channel|>",
    "<|START_THINKING|>": "<|END_THINKING|>",
    "<|open|>think<|sep|>": "<|close|>think<|sep|>",
}
REASONING_MARKS = (
    *(Opener(stem, "", kind="think") for stem in REASONING_TAGS),
    *(Opener(stem, "", kind="thought") for stem in REASONING_TAGS.values()),
    Opener("[BEGIN FINAL RESPONSE]", "", kind="thought"),
)
# Elements that quote text, and the speaker labels of invented transcripts.
QUOTING_ELEMENTS = (
    *("example", "sample", "quote", "blockquote", "q", "cite", "code", "pre", "samp", "xmp", "kbd"),
    *("details", "document", "file", "source", "snippet", "excerpt", "output", "log", "untrusted"),
    *("tool_response", "tool_result", "tool_output", "function_result", "function_response"),
)
USER_LABELS = ("user", "human", "customer", "q")
MODEL_LABELS = ("assistant", "ai", "bot", "agent", "model", "a")
USER_TOKENS = ("<|im_start|>user", "<|start_header_id|>user", "<start_of_turn>user", "[INST]")
MODEL_TOKENS = (
    *("<|im_start|>assistant", "<|start_header_id|>assistant", "<start_of_turn>model", "[/INST]"),
)
CODE_MARKS = (Opener("`", "", kind="code"), Opener("~~~", "", kind="code"))

# Harmony: ends of messages, recipients that are not tools, and remains of stripped tokens.
MESSAGE_MARK = "<|message|>"
MESSAGE_ENDS = ("<|end|>", "<|call|>", "<|return|>", "<|start|>", "<|channel|>", "<|eom|>")
BUILT_IN_RECIPIENTS = ("assistant", "user", "self", "python", "browser", "container")
STRIPPED_FINAL_MARK = "assistantfinal"
