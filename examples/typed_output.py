"""Typed output: the answer as a value of your type, repaired and validated."""

from typing import TypedDict

from surecall import ToolLoopRunner
from surecall.testing import ScriptedProvider, says


class Quote(TypedDict):  # a dataclass, a msgspec Struct, or a pydantic model works as well
    item: str
    price: float


with ScriptedProvider(says('```json\n{"item": "lamp", "price": "19.5",}\n```')) as provider:
    print(ToolLoopRunner(provider.url, "any", output=Quote).run_sync("A lamp?").output)
