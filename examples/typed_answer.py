"""An answer that is a value: a class with a rule of its own, after a tool was called.

The model is scripted: it answers in prose first, then breaks the rule, then gets it right.
"""

from dataclasses import dataclass

from surecall import ToolLoopRunner
from surecall.testing import ScriptedModel, calls, says


@dataclass
class Quote:
    """What a customer is offered; a msgspec Struct or a pydantic model would do as well."""

    item: str
    price: float

    def __post_init__(self) -> None:
        """Refuse what is given away."""
        if self.price <= 0:
            raise ValueError("a price is more than nothing")


def look_up(item: str) -> dict[str, object]:
    """Look up an item."""
    return {"item": item, "price": 19.5}


model = ScriptedModel(
    calls("look_up", item="lamp"),
    says("The lamp is 19.50."),
    says('{"item": "lamp", "price": 0}'),
    says('{"item": "lamp", "price": 19.5}'),
)
runner = ToolLoopRunner(client=model, model="scripted", tools=[look_up], output=Quote)
result = runner.run_sync("What is the lamp?")
print(result.trace)
assert result.output == Quote("lamp", 19.5)
runner.close()
