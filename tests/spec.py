"""What surecall promises, sentence by sentence, each with an id that some test claims.

`C…` is the behaviour that is compatible with the system surecall grew out of; `I…` is where
surecall deliberately does better. A test claims ids with `@proves("C1", "I2")`. Both directions
are enforced in `test_spec.py`: no promise without a test, no claim without a promise.
"""

from collections.abc import Callable
from typing import TypeVar

F = TypeVar("F", bound=Callable[..., object])


def proves(*ids: str) -> Callable[[F], F]:
    """Say which promises a test proves. The ids are read from the source, not at run time."""
    del ids

    def unchanged(test: F) -> F:
        return test

    return unchanged


SPEC: dict[str, str] = {
    # The loop
    "C1": "Two calls, then text: both tools run in order, two requests, the text is returned.",
    "C2": "The first request has the model, tool_choice auto, and only the exposed tools.",
    "C3": "The second request has the user's message, the calls, and a tool message for each.",
    "C4": "Text beside calls is sent back empty; the trace keeps a sample of it.",
    "C5": "The system text is the first message, to the letter.",
    "C6": "A per-run observer and the runner's observers see every kind of event.",
    "C7": "An observer that raises does not affect the run.",
    "C8": "The provider's token counts appear in the trace of the turn.",
    "C9": "Blanks around a tool name do not count.",
    "C10": "A blank user text adds no message.",
    "C11": "A model that never stops calling is stopped by max_turns with a typed error.",
    "C12": "The caller's history is not modified.",
    # Calls
    "C13": "Two calls with one id are told apart; results carry the new ids.",
    "C14": "Missing ids are minted as tc_1, tc_2 by position.",
    "C15": "Three equal ids become x, x__2, x__3.",
    "C16": "A single call object in place of the array is read without any transform.",
    "C17": "The object-to-array transform gives the same result.",
    "C18": "Entries of the call list that are no objects are dropped.",
    "C19": "A legacy function_call is read under the default preset; object arguments are encoded.",
    "C20": "A legacy function_call is ignored beside real tool calls.",
    # Arguments
    "C21": "Invalid JSON is answered with ARGUMENTS_JSON_PARSE_ERROR; the tool does not run.",
    "C22": "Blank arguments mean {} even without transforms.",
    "C23": "Empty arguments under the default preset run the tool.",
    "C24": "JSON in a labelled code fence is read.",
    "C25": "Arguments that were encoded twice are read.",
    "C26": "Argument text above the limit is answered with ARGUMENTS_TOO_LARGE.",
    "C27": "An argument object above the limit is answered with ARGUMENTS_TOO_LARGE.",
    "C28": "ARGUMENTS_TOO_LARGE tells bytes and max_bytes.",
    "C29": "Arguments exactly at the limit are accepted.",
    "C30": "A list or number in place of the object is ARGUMENTS_JSON_PARSE_ERROR; null means {}.",
    "C31": "Sizes are bytes, not characters.",
    "C32": "A missing arguments key means {}.",
    # Registry and mask
    "C33": "A hidden tool is not sent; calling it is TOOL_NOT_ALLOWED and the run goes on.",
    "C34": "A denied tool is not sent; calling it fails for that call while its sibling runs.",
    "C35": "A name on both lists is denied.",
    "C36": "The allow list bounds what is sent and what may run.",
    "C37": "Empty `required` lists are left out at every depth.",
    "C38": "A registry item that is no tool is an error.",
    "C39": "Objects that offer a JSON Schema are accepted as parameters, others are refused.",
    "C40": "A dotted name resolves to the registered name with underscores.",
    "C41": "Too many tools, or too large ones, are refused by key; masks and hiding count first.",
    # Dispatch
    "C42": "A mapping, text or nothing from a tool becomes an envelope with data.",
    "C43": "Only a literal true is ok in an envelope that a tool wrote itself.",
    "C44": "A ValueError is ARGUMENT_ERROR, any other exception INTERNAL_ERROR.",
    "C45": "An executor that takes tool_call_id gets it; one that does not still works.",
    "C46": "An envelope always has ok, tool_name, data, warnings, errors.",
    # Output guard
    "C47": "Output above the limit is TOOL_OUTPUT_TOO_LARGE and is not sent.",
    "C48": "Result transforms also shape the replacement.",
    "C49": "The event of a replaced output says so.",
    "C50": "The measure refuses a long text.",
    "C51": "The measure refuses deep nesting.",
    "C52": "The measure refuses too many nodes.",
    "C53": "The measure passes a small value with an integer estimate.",
    "C54": "Output that is no JSON is TOOL_OUTPUT_SERIALIZATION_ERROR; the run goes on.",
    # Modes and policies
    "C55": "disabled sends neither tools nor tool_choice and needs no executor.",
    "C56": "disabled works from a config mapping.",
    "C57": "Calls that come although tools are disabled are counted and ignored.",
    "C58": "relaxed without calls succeeds; tools were sent.",
    "C59": "enforced without calls is NO_TOOL_CALLS with trace and history.",
    "C60": "enforced and fatal: an oversized output fails the run and names the tool.",
    "C61": "enforced and tolerated: the same script succeeds.",
    "C62": "enforced and tolerated with nothing but failures is TOOL_ERROR.",
    "C63": "enforced and fatal: a failure that a later call repairs is forgiven.",
    "C64": "relaxed forgives failing tools.",
    "C65": "relaxed with a retry budget sends again without tools when tools are refused.",
    "C66": "Without a budget the refusal is raised, after an error event.",
    "C67": "enforced ignores that budget.",
    "C68": "A tool that nothing can run is refused at construction.",
    "C69": "An unknown mode or policy is an error.",
    # Limit per turn
    "C70": "parallel_tool_calls false: one of two calls runs, one is counted as ignored.",
    "C71": "max_tool_calls_per_turn 2 runs two of three calls.",
    "C72": "parallel_tool_calls true without a limit runs all.",
    "C73": "An explicit limit beats the implied one.",
    # Empty final answer
    "C74": "An empty answer after tools is asked for once more, without tools.",
    "C75": "The request's text and whether tools stay can be configured.",
    "C76": "It is asked for once per run; with the switch off the blank is returned, flagged.",
    "C77": "It is not asked for when no tool was called.",
    "C78": "White space counts as empty.",
    # Request
    "C79": "request_overrides reach the body; reserved keys do not.",
    "C80": "llm_options_defaults reach the body and merge with the overrides.",
    "C81": "Reserved keys in defaults, stream among them, are refused.",
    "C82": "tool_choice is sent as configured.",
    "C83": "Tools together with response_format, or against the capabilities, are refused.",
    "C84": "Under the default preset parallel_tool_calls is false.",
    "C85": "An option that the endpoint does not take is planned but not sent.",
    "C86": "A history item in a form that is not known is refused by name.",
    "C87": "The text of a reply is kept as it came.",
    # Transforms
    "C88": "An empty reasoning_content is added to call turns that have none.",
    "C89": "Blank content beside calls becomes null.",
    "C90": "A signature placeholder is added to calls that have none.",
    "C91": "Descriptions can be stripped from tools.",
    "C92": "A tool_call tag in text runs the tool; the text goes back empty.",
    "C93": "A tag inside a code fence is text.",
    "C94": "An escaped tag is text, shown as an entity.",
    "C95": "Two tags are two calls; a broken one does not harm its neighbour.",
    "C96": "Tags may hold a name and JSON, or a name alone.",
    "C97": "The compact envelope leaves out what is empty.",
    "C98": "The compact envelope keeps ok, tool_name and errors of a failure.",
    "C99": "An unknown transform of any family is refused before any request.",
    "C100": "It is refused when the config is built, always.",
    "C101": "Transform names may be spelt in any case and with hyphens.",
    # Presets
    "C102": "merge joins request overrides deeply and unites name lists.",
    "C103": "In merge an explicit empty list clears; transform lists unite in order.",
    "C104": "The catalog knows what DeepSeek, Gemini and minimax-m2-her need.",
    "C105": "The default preset has three response transforms and one for blank arguments.",
    "C106": "OpenRouter and OpenAI presets set parallel_tool_calls to false.",
    "C107": "The tag preset adds exactly the tag transform; the reliability preset can add it.",
    # Transport
    "C108": "A request can be streamed: deltas, then the full text, finish reason and usage.",
    "C109": "The final turn after tools is streamed as it is generated, and generated only once.",
    "C110": "URLs are joined without doubling /v1.",
    "C111": "A bad status is an error with status, message and body.",
    "C112": "Streams are read however they are cut; where streaming is refused, it is left out.",
    "C113": "Content in parts is joined; token counts are read.",
    "C114": "Capabilities are known per provider and model, whatever the spelling.",
    "C115": "A prompt beyond the context window is refused before it is sent.",
    "C116": "A tool policy can deny, demand confirmation, fail closed, open or loudly.",
    "C117": "Events carry the run id and only allowed context, shortened.",
    # Better
    "I1": "An unknown tool followed by recovery does not fail an enforced, fatal run.",
    "I2": "MAX_TURNS_EXCEEDED carries trace, history and usage.",
    "I3": "A server error in turn three carries the first two turns.",
    "I4": "An error body inside HTTP 200 is a provider error.",
    "I5": "The request for a final answer has no blank message and no parallel_tool_calls.",
    "I6": "A second empty answer is EMPTY_FINAL, never success.",
    "I7": "A reply cut off by the token limit says so to the model; the call does not run.",
    "I8": "401 and 402 are not sent again; 429 is, after Retry-After, with tools.",
    "I9": "Ignored calls are traced with id and name, and answered.",
    "I10": "Content as a list of parts becomes plain text.",
    "I11": "Reasoning fields survive the round trip; a placeholder never replaces a real one.",
    "I12": "Minted ids are unique across turns.",
    "I13": "Transforms change neither the history, nor the raw body, nor the caller's options.",
    "I14": "Without tools none are sent; enforced mode fails at once.",
    "I15": "All transform names are checked before the first request.",
    "I16": "A slow tool is TOOL_TIMEOUT and the run goes on; a slow run is DEADLINE_EXCEEDED.",
    "I17": "Arguments against the schema are ARGUMENT_ERROR with a path; the tool does not run.",
    "I18": "The same call again and again is noted, blocked, and ends the run.",
    "I19": "Oversized output says that the tool ran, with a preview, within the limit.",
    "I20": "A tag's payload may hold backticks; an unclosed last tag is read.",
    "I21": "Compatibility presets change nothing but what they are about.",
    "I22": "raw sends no preset effects and no parallel_tool_calls.",
    "I23": "An empty allow list allows nothing.",
    "I24": "The word false is not true.",
    "I25": "all,!x leaves x out; an empty filter is not everything.",
    # Guards and reliability of our own
    "G1": "Calls beyond max_total_tool_calls do not run and end the run.",
    "G2": "Unknown tools are bounded over the whole run.",
    "G3": "A run can be written down after any move and continued elsewhere.",
    "G4": "replay gives the same run, or names the first divergence.",
    "G5": "A key that an endpoint echoes is in no event or error; a known key in no file or repr.",
    "G6": "run_sync works inside a running event loop.",
    "G7": "Every history that is sent answers each call once, with unique ids and JSON arguments.",
    "G8": "No reader raises on any JSON value.",
    "G9": "No transform mutates its input.",
    "G10": "A denied tool never runs under any spelling.",
    "G11": "Retries follow a table: attempts, backoff, Retry-After in three forms up to 120 s.",
    "G12": "A tool that never returns does not keep the program from ending.",
}
