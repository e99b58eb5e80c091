# ruff: noqa: RUF001 (the wide bars and quotation marks are what models write)
"""The spellings of every dialect, as data: openers, closers, separators, reasoning marks.

A row id names a dialect: A is JSON in an envelope, B a name and then an object, C tagged
parameters, D Python calls. An opener gives the row that its envelope belongs to; the body that
follows decides the grammar, so a model that mixes two dialects is still read.

What each list is for, which modules read it, and what happens to an entry in the wrong one:

    OPENERS (marks, body, holdback)
        What begins a call. Weak, if prose can have it: else prose is taken for a call.
    CLOSERS (marks, pieces, named, objects, tagged, loose, values)
        What may follow any call and goes with it; ends in `>` or `]`, or a tag's `>` is looked for.
        After a name it means "no arguments", so a mark of prose here makes calls of mere names.
    END_TOKENS, VALUE_ENDS, TAGGED_ROWS (marks)
        Which closers may come twice after a call, and which must not come at all after a row.
        Wrongly listed, a call is asked about for nothing, or a shortened one runs.
    ORPHANS (marks)
        Beginnings of closers that are cut off a text without calls. A word here eats answers.
    HEADER_ENDS, MESSAGE_ENDS (named, engine)
        Where arguments end that cannot be read. Without its end, a bad call swallows the next one.
    SEPARATORS, NAME_MARKS, ID_MARK, ARGUMENTS, MESSAGE (named, harmony)
        Between name, id and object; each is in SEPARATORS too. Missing there, the name ends early.
    STRONG_ROWS (named)
        Rows whose marks occur nowhere else: unknown tools are reported. Others need a known tool.
    BARE_ROWS, PYTHON_ROWS (named, body)
        Rows with unquoted text, or with Python calls. Wrongly listed, text becomes arguments.
    ROWS, DEFAULT_ROWS (body)
        The row of a body in an envelope of another row. Wrong only in `Found.dialect`.
    TAG_NAMES (body)
        Tags whose opener has no `>`: those that count. A missing one is no envelope at all.
    FUNCTION, KEYS, STYLES, PREFIXES, HINTS (tagged)
        How tagged parameters are spelled. An end mark missing here becomes part of a value.
    NAME_KEYS, ARGUMENT_KEYS, LIST_KEYS, ID_KEYS, BESIDE_KEYS (objects, body)
        The keys of a call as one object. A key too many makes calls of ordinary JSON.
    THINKING, THOUGHT_MARKS (engine, thoughts, marks, holdback)
        Reasoning, begin to end. An opener here hides its call; a mark missing shows thoughts.
    FRAMES, ANSWERS (engine, marks)
        Around the answer itself, taken away at both ends of a text. A word here eats answers.
    CODE_MARKS, FENCES, LABELS, QUOTATION_MARKS (segments, marks, named, body, thoughts)
        What says that a call is only shown. Missing, an example in a text is run.
    SHOWING, USER_SPEAKS, MODEL_SPEAKS, USER_TOKENS, MODEL_TOKENS (segments)
        Elements and lines in which others speak. A word of prose here silences calls after it.
    BUILT_IN, STRIPPED_FINAL, STRIPPED_LEADS (harmony, marks, holdback)
        Harmony: who is no tool of ours, and what is left of its tokens.
    LEAD, DSML, BARS, ANTML (body, children, marks, tagged, writing, holdback)
        Pieces of marks, each spelled once; no lists of their own.
"""

import msgspec

from surecall.wire import text_edges


class Opener(msgspec.Struct, frozen=True):
    """One spelling: what it opens, and how much it takes to believe it.

    `wrap` opens an envelope, `head` a call with tagged parameters, `back` is behind the name,
    `frame` opens a harmony message. A `weak` one can be part of prose and needs a known tool.
    """

    stem: str
    row: str
    kind: str = "wrap"
    weak: bool = False
    # How much of the stem belongs to the body.
    inside: int = 0
    # What must end the call, and its line: without it, a quotation would be taken for a call.
    closer: str = ""


class Style(msgspec.Struct, frozen=True):
    """How the tags of a call with tagged parameters are spelled."""

    row: str
    head: tuple[str, ...]
    call: tuple[str, ...]
    call_end: tuple[str, ...]
    parameter: tuple[str, ...]
    parameter_end: tuple[str, ...]
    # What else may be left over between parameters.
    stray: tuple[str, ...] = ()
    tag_end: str = ">"
    # Whether the format puts a line break of its own before and after each value.
    lines: bool = False


LEAD = "]<]minimax[>["
DSML = "DSML"
BARS = "|｜‖"
FENCES = ("```", "~~~")
# Labels of code blocks that are calls. Only the first is believed after words, as Gemini writes it.
LABELS = ("tool_code", "tool_calls", "tool_call", "function_calls", "function_call")
QUOTATION_MARKS = ('"', "'", "“", "‘", "«", "„")
ANTML = "antml:"

# The keys of a call that is one JSON object, and what may stand beside a name without arguments.
NAME_KEYS = ("name", "tool_name", "function", "tool", "call", "_name")
ARGUMENT_KEYS = ("arguments", "parameters", "args", "input", "tool_input")
ID_KEYS = ("id", "tool_call_id", "call_id")
LIST_KEYS = ("tool_calls", "toolCalls", "calls")
BESIDE_KEYS = frozenset({*ID_KEYS, "type", "index"})
# What is left before a recipient when special tokens are stripped.
STRIPPED_LEADS = (
    *("assistantanalysis ", "assistantcommentary "),
    *("analysis ", "commentary ", "assistant ", ""),
)


def _spaced(*pieces: str) -> tuple[str, ...]:
    """Spell a mark with and without blanks between its pieces."""
    return tuple(dict.fromkeys(("".join(pieces), " ".join(pieces))))


OPENERS = (
    Opener("<tool_call", "A1"),
    Opener("<|tool_call|>", "A2"),
    Opener("<function_call", "A3"),
    Opener("<longcat_tool_call>", "A4"),
    Opener("<TOOLCALL>", "A6"),
    Opener("[TOOL_CALLS]", "A7"),
    Opener("functools[", "A8", inside=1),
    Opener("<|python_tag|>", "A9"),
    Opener("<|tools_prefix|>", "A10"),
    Opener("<|START_ACTION|>", "A11"),
    Opener("Action:", "A12", weak=True),
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
    Opener("[TOOL_CALL]", "A17", closer="[/TOOL_CALL]"),
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
    Opener("«call ", "B12", weak=True, closer="»"),
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
    *(Opener(mark, "C11") for mark in _spaced("<|open|>", "tools", "<|sep|>")),
    *(Opener(mark, "C11", kind="head") for mark in _spaced("<|open|>", "call")),
    Opener(LEAD, "C12"),
    Opener("<tool_use>", "C13", weak=True),
    Opener("tool_use>", "C13", weak=True),
    Opener("<function>", "C13", weak=True),
    Opener("<|python_start|>", "D2"),
    Opener("<|tool_call_start|>", "D3"),
    *(Opener(f"```{label}", "D6") for label in LABELS),
)

FUNCTION = Style(
    "C1",
    head=("<function=",),
    call=("<function=", "<tool_call"),
    call_end=("</function",),
    parameter=("<parameter=",),
    parameter_end=("</parameter",),
    lines=True,
)
KEYS = Style(
    "C9",
    head=(),
    call=("<tool_call",),
    call_end=("</tool_call",),
    parameter=("<arg_key",),
    parameter_end=("</arg_value",),
    stray=("</arg_key", "<tool_sep"),
)
STYLES = (
    Style(
        "C8",
        head=("<function name", "<functionname"),
        call=("<function",),
        call_end=("</function",),
        parameter=("<param",),
        parameter_end=("</param",),
    ),
    Style(
        "C11",
        head=_spaced("<|open|>", "call"),
        call=_spaced("<|open|>", "call"),
        call_end=_spaced("<|close|>", "call"),
        parameter=_spaced("<|open|>", "argument"),
        parameter_end=_spaced("<|close|>", "argument"),
        tag_end="<|sep|>",
    ),
)
# What may stand before `invoke` and `parameter`, and the row that it tells.
PREFIXES = {"": "C4", " ": "C4", ANTML: "C4", "atem:": "C6", "steptml:": "C7"}
# The markup may say what a value is.
HINTS = {"true": "string", "false": "object"}

# Tags whose name goes on: which names count, and the row of each.
TAG_NAMES = {
    "tool_call": "A1",
    "tool_calls": "A5",
    "function_call": "A3",
    "function_calls": "C4",
}

# The row of a body in an envelope of another row; an envelope that is not listed gives its own.
ROWS = {
    "json": {"C4": "A5", "C2": "A1", "C3": "A5", "C5": "A5", "C9": "A1", "C11": "A5", "C12": "A1"},
    "function": {"C2": "C2"},
    "function json": {},
    "named": {"A1": "B11", "A5": "B11", "A7": "B4", "A9": "B11", "C4": "B11", "A14": "B2"},
    "python": {"A1": "B11", "A9": "D5", "C4": "D4", "D2": "D2", "D3": "D3", "D6": "D6"},
    "keys": {"A5": "C10"},
}
DEFAULT_ROWS = {"function": "C1", "function json": "B7", "python": "D1", "keys": "C9"}
# Objects of these rows may hold unquoted text.
BARE_ROWS = frozenset({"B9", "B10"})

# The headers of these rows are made of tokens that nothing else uses.
STRONG_ROWS = frozenset({"A7", "A14", "A15", "B2", "B3", "B5", "B6", "B9", "B10"})
# Envelopes that may hold Python calls without a list around them.
PYTHON_ROWS = frozenset({"A9", "C4", "D2", "D3", "D6"})

# Between the pieces of a header. The name comes after the first two, an id after the third.
NAME_MARKS = ("<|tool_call:name|>", "<｜tool▁sep｜>")
ID_MARK = "[CALL_ID]"
ARGUMENTS = "[ARGS]"
SEPARATORS = (
    *NAME_MARKS,
    ID_MARK,
    ARGUMENTS,
    "<|tool_call_argument_begin|>",
    "<|tool_call:args|>",
    "<|constrain|>",
    "<|channel|>",
    "<|message|>",
)

# What ends a call with such a header, whatever its object is like.
HEADER_ENDS = (
    "<|tool_call_end|>",
    "<｜tool▁call▁end｜>",
    "<|tool_call:end|>",
    "<|call|>",
    "<tool_call|>",
    "[TOOL_CALLS]",
    "[/TOOL_CALLS]",
)

# These end a turn, and may come more than once.
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
    *_spaced("<|close|>", "call", "<|sep|>"),
    *_spaced("<|close|>", "tools", "<|sep|>"),
    "<|call|>",
    *END_TOKENS,
)
# In a call with tagged parameters these end a value; after the call they are one too many.
VALUE_ENDS = ("parameter>", "</arg_value>", "</arg_key>", "</param>")
TAGGED_ROWS = frozenset({"B7", "C1", "C2", "C3", "C4", "C5", "C6", "C7", "C8", "C9", "C10", "C11"})
# Closers that are the whole of what a text may lose when no call is before them.
ORPHANS = ("</tool_call", "[/TOOL_CALLS]", "<|tool_call", "<｜tool", "<|call|>", "<|return|>")

# Around the answer itself; taken away where they begin or end a text.
FRAMES = (
    "<|START_RESPONSE|>",
    "<|END_RESPONSE|>",
    "<|START_TEXT|>",
    "<|END_TEXT|>",
    "<|open|>response<|sep|>",
    "<|close|>response<|sep|>",
    "[END FINAL RESPONSE]",
)

# Around what is the answer and nothing else.
ANSWERS = {
    "<|START_RESPONSE|>": "<|END_RESPONSE|>",
    "<|START_TEXT|>": "<|END_TEXT|>",
    "<|open|>response<|sep|>": "<|close|>response<|sep|>",
}
THINKING = {
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
THOUGHT_MARKS = (
    *(Opener(stem, "", kind="think") for stem in THINKING),
    *(Opener(stem, "", kind="thought") for stem in THINKING.values()),
    Opener("[BEGIN FINAL RESPONSE]", "", kind="thought"),
)
# Elements that show what others wrote, and who speaks in a made-up transcript.
SHOWING = (
    *("example", "sample", "quote", "blockquote", "q", "cite", "code", "pre", "samp", "xmp", "kbd"),
    *("details", "document", "file", "source", "snippet", "excerpt", "output", "log", "untrusted"),
    *("tool_response", "tool_result", "tool_output", "function_result", "function_response"),
)
USER_SPEAKS = ("user", "human", "customer", "q")
MODEL_SPEAKS = ("assistant", "ai", "bot", "agent", "model", "a")
USER_TOKENS = ("<|im_start|>user", "<|start_header_id|>user", "<start_of_turn>user", "[INST]")
MODEL_TOKENS = (
    *("<|im_start|>assistant", "<|start_header_id|>assistant", "<start_of_turn>model", "[/INST]"),
)
CODE_MARKS = (Opener("`", "", kind="code"), Opener("~~~", "", kind="code"))

# Harmony: how messages end, who is no tool of ours, and what is left when tokens are stripped.
MESSAGE = "<|message|>"
MESSAGE_ENDS = ("<|end|>", "<|call|>", "<|return|>", "<|start|>", "<|channel|>", "<|eom|>")
BUILT_IN = ("assistant", "user", "self", "python", "browser", "container")
STRIPPED_FINAL = "assistantfinal"
