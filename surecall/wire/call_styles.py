"""Setting values: how calls are requested, and which text calls are recognized."""

from typing import Literal, TypeAlias, get_args

CallProtocol: TypeAlias = Literal["native", "guided", "prompted"]
TextCalls: TypeAlias = Literal["off", "marked", "any"]
TextCallRule: TypeAlias = Literal[
    "whole", "marked", "own_words", "last_words", "only_way", "not_destructive"
]
TEXT_CALL_RULES: tuple[TextCallRule, ...] = get_args(TextCallRule)
