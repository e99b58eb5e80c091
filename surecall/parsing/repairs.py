"""The repairs of arguments by name, each with the reason why nothing is lost by it.

A repair that no sentence can be written for is a guess, and must not be made. The names are what
a call's `repairs` and a reply's `fired` hold.
"""

from typing import Final

# Arguments that no strict JSON reader takes. Each form has one meaning, whatever the tool is.
OF_SPELLING: Final = {
    "byte_order_mark": "The mark says how text is stored. It is no part of the text.",
    "code_fence": "The fence is around the whole text, where JSON has none.",
    "null_arguments": "Null holds no argument, and neither does the empty object.",
    "double_encoded": "The text is a JSON string, and its content is the object.",
    "surrogates": "Two halves of a character are joined. A half alone can be neither sent nor run.",
    "escaped_whitespace": "Between values, JSON has nothing that begins with a backslash.",
    "repeated_object": "All copies say the same.",
    "trailing_commas": "A comma with nothing behind it separates nothing.",
    "bare_keys": "In an object, only a key may stand before a colon.",
    "python_literals": "Python's words and quotation marks have one counterpart each in JSON.",
    "control_characters": "A line break in a string can only be the line break.",
}
# Values that the tool's schema refuses, and that have one reading by their type.
OF_TYPE: Final = {
    "unwrapped": "The only key is not the tool's, and what it holds has the keys of the tool.",
    "number_from_text": "No text may stand there, and this text is one number in JSON.",
    "boolean_from_text": "No text may stand there, and this text is one boolean.",
    "container_from_text": "No text may stand there, and this text is one list or object in JSON.",
    "null_from_text": "No text may stand there, and this text is null in JSON.",
    "integer_from_float": "The fraction is zero, and the number is small enough to be exact.",
    "null_optional_dropped": "The schema refuses null, and leaving the property out is allowed.",
    "empty_optional_dropped": "The schema refuses the empty text, and the property is optional.",
}
# What is tried only when the straight reading failed, and taken only if nothing else validates.
OF_MEANING: Final = {
    "control_tokens": "Tokens of the chat template are never part of JSON, and nothing else was "
    "around it.",
    "closers_too_many": "The object is whole, and behind it are only closing brackets.",
    "empty_object_beside": "The empty object says nothing, and the schema refuses it.",
    "sole_item": "The list holds one object and nothing else, and arguments are an object.",
    "no_arguments": "It holds nothing, the tool allows no arguments, and none of its properties "
    "could have this value.",
    "call_in_arguments": "The name is the tool's own, the schema refuses the call, and allows what "
    "it holds.",
    "doubled_braces": "No object begins with a brace, and the outer pair holds nothing else.",
    "keys_renamed": "The schema refuses the keys as they are. Each has the words of exactly one "
    "declared key that is not given.",
    "text_from_number": "The schema wants a text, and an integer has one spelling. Floats and -0 "
    "have several, and are told.",
    "null_from_word": "The schema refuses this text, in any case of its letters, and allows null "
    "or absence.",
    "entities_decoded": "The schema refuses the text as it is, and allows it decoded once.",
    "percents_decoded": "The schema refuses the text as it is, and allows it decoded once.",
    "text_bared": "The schema refuses the text as it is, and allows what is inside the quotation "
    "marks, tokens or blanks.",
}
# What would be wrong for other models. Only a preset of its own switches one of these on.
BY_CHOICE: Final = {
    "html_entities": "It is lossless for a model that always escapes, which the preset says.",
    "text_from_container": "The schema wants a text, and this is the JSON text of the value.",
}
REPAIRS: Final = OF_SPELLING | OF_TYPE | OF_MEANING | BY_CHOICE
