"""Recipes for the tasks of the scenario pack `work`: look something up, then write.

A recipe is selected by words of the request. The arguments of its steps are constants from the
request or values from the results of earlier steps.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

import msgspec

from surecall.values.nesting import decode_json
from surecall.values.types import JSON

_MISSING_VALUE: Final = "unknown"
_RETRY_WORDS: Final = "fix the errors and try again"


class CallOutcome(msgspec.Struct, frozen=True):
    """A call of the conversation with its result."""

    tool: str
    content: str

    @property
    def value(self) -> Any:
        """The decoded result, None if it is plain text."""
        try:
            return decode_json(self.content)
        except ValueError:
            return None

    @property
    def ok(self) -> bool:
        """Whether the result reports no failure."""
        match self.value:
            case {"ok": False} | {"isError": True} | {"error": _}:
                return False
            case None:
                lowered = self.content.lstrip().lower()
                return not lowered.startswith("error") and _RETRY_WORDS not in lowered
            case _:
                return True

    @property
    def codes(self) -> frozenset[str]:
        """The error codes in the result."""
        match self.value:
            case {"errors": list(errors)}:
                return frozenset(str(one.get("code")) for one in errors if isinstance(one, dict))
            case _:
                return frozenset()


class ResultReference(msgspec.Struct, frozen=True):
    """A reference to a field of an object in a tool's results.

    The object is the one at `position` among those whose fields match `where`. `field` defaults to
    the name of the argument.
    """

    tool: str
    field: str = ""
    where: JSON = {}
    position: int = 0


class RecipeStep(msgspec.Struct, frozen=True):
    """One call. With `is_final`, a failed call is not repeated."""

    tool: str
    arguments: Mapping[str, Any] = {}
    is_final: bool = False


class Recipe(msgspec.Struct, frozen=True):
    """The words that identify a task, its calls in order, and its answer."""

    request_words: str
    answer: str
    steps: tuple[RecipeStep, ...] = ()


def recipe_for(text: str) -> Recipe | None:
    """Return the recipe for a user's task, or None."""
    return next((each for each in RECIPES if each.request_words in text), None)


def next_step(recipe: Recipe, outcomes: Sequence[CallOutcome]) -> RecipeStep | None:
    """Return the first open step, or None."""
    tried = Counter(each.tool for each in outcomes)
    succeeded = Counter(each.tool for each in outcomes if each.ok)
    needed: Counter[str] = Counter()
    for step in recipe.steps:
        needed[step.tool] += 1
        taken = tried if step.is_final else succeeded
        if taken[step.tool] < needed[step.tool]:
            return step
    return None


def step_arguments(step: RecipeStep, outcomes: Sequence[CallOutcome]) -> JSON:
    """Return the arguments of a step, with references resolved."""
    return {key: _resolve_argument(key, value, outcomes) for key, value in step.arguments.items()}


def _resolve_argument(key: str, value: Any, outcomes: Sequence[CallOutcome]) -> Any:
    """Return an argument's value: the constant, or the value that its reference names."""
    if not isinstance(value, ResultReference):
        return value
    field, wanted = value.field or key, value.where.items()
    results = [each.value for each in outcomes if each.tool == value.tool]
    fitting = (
        item for item in _nested_objects(results) if field in item and wanted <= item.items()
    )
    return next((item[field] for item in islice(fitting, value.position, None)), _MISSING_VALUE)


def _nested_objects(value: Any) -> Iterator[JSON]:
    """Yield the objects in a value in document order, outer ones first."""
    waiting = [value]
    while waiting:
        inner = waiting.pop()
        if isinstance(inner, dict):
            yield inner
            waiting += reversed(inner.values())
        elif isinstance(inner, list):
            waiting += reversed(inner)


def _result_value(
    tool: str, /, field: str = "", *, position: int = 0, **where: str
) -> ResultReference:
    return ResultReference(tool, field, where, position)


def _step(tool: str, /, *, final: bool = False, **arguments: Any) -> RecipeStep:
    return RecipeStep(tool, arguments, final)


def _recipe(keywords: str, answer: str, *steps: RecipeStep) -> Recipe:
    return Recipe(keywords, answer, steps)


RECIPES: Final = (
    _recipe(
        "pickup point at Market Square",
        "The parcel P-4478 goes to the pickup point at Market Square now.",
        _step("find_parcels", recipient="Irene Okafor"),
        _step("find_pickup_points", place="Market Square"),
        _step(
            "redirect_parcel",
            parcel_id=_result_value("find_parcels", status="in transit"),
            point_id=_result_value("find_pickup_points"),
        ),
    ),
    _recipe(
        "ticket about the printer that jams",
        "The ticket is assigned to Milan Reyes, who is on call.",
        _step("search_tickets", words="jams"),
        _step("who_is_on_call", team="facilities"),
        _step(
            "assign_ticket",
            ticket_id=_result_value("search_tickets"),
            person_id=_result_value("who_is_on_call"),
        ),
    ),
    _recipe(
        "overdue invoice of Hallberg",
        "I paid 386.20 from the account operations.",
        _step("find_invoices", company="Hallberg"),
        _step("list_accounts"),
        _step(
            "pay_invoice",
            invoice_id=_result_value("find_invoices", status="overdue"),
            account_id=_result_value("list_accounts", name="operations"),
            amount=_result_value("find_invoices", status="overdue"),
        ),
    ),
    _recipe(
        "read the board minutes",
        "Lea Brunner may read the folder F-3 now.",
        _step("find_folders", folder_name="Board minutes"),
        _step("find_people", surname="Brunner"),
        _step(
            "grant_right",
            folder_id=_result_value("find_folders", name="Board minutes"),
            person_id=_result_value("find_people", name="Lea Brunner"),
            right="read",
        ),
    ),
    _recipe(
        "brass valves of 22 mm",
        "I ordered 40 brass valves from Quist.",
        _step("find_parts", words="brass 22 mm"),
        _step("list_offers", sku=_result_value("find_parts")),
        _step(
            "order_part",
            sku=_result_value("find_parts"),
            supplier_id=_result_value("list_offers", delivers_on="Friday"),
            quantity=40,
        ),
    ),
    _recipe(
        "label nightly-export of the service reports",
        "The key K-101 is revoked.",
        _step("list_keys", service="reports"),
        _step("revoke_key", key_id=_result_value("list_keys", label="nightly-export")),
    ),
    _recipe(
        "duplicate of T-311",
        "I closed T-325 and T-340.",
        _step("linked_tickets", ticket_id="T-311"),
        _step("close_ticket", ticket_id=_result_value("linked_tickets", relation="duplicate")),
        _step(
            "close_ticket",
            ticket_id=_result_value("linked_tickets", position=1, relation="duplicate"),
        ),
    ),
    _recipe(
        "cleaning of Jonas Weber",
        "The cleaning is on Thursday at 14:30 now.",
        _step("find_appointments", patient="Jonas Weber"),
        _step("free_slots", dentist="Brandt"),
        _step(
            "move_appointment",
            appointment_id=_result_value("find_appointments", kind="cleaning"),
            slot_id=_result_value("free_slots", day="Thursday"),
        ),
    ),
    _recipe(
        "author of the document Harbour plan",
        "The author sits in room 4.17.",
        _step("find_documents", title="Harbour plan"),
        _step("get_person", person_id=_result_value("find_documents", "author_id")),
        _step("get_desk", desk_id=_result_value("get_person")),
    ),
    _recipe(
        "the book Rivers of Asia",
        "She may keep it until 24 May.",
        _step("find_loans", reader="Nora Lind"),
        _step("extend_loan", loan_id=_result_value("find_loans", title="Rivers of Asia")),
    ),
    _recipe(
        "late shift on Saturday",
        "Pia Sommer has the late shift, which begins at 14:00.",
        _step("list_shifts", day="Saturday"),
        _step("find_staff", surname="Sommer"),
        _step(
            "give_shift",
            shift_id=_result_value("list_shifts", kind="late"),
            person_id=_result_value("find_staff", name="Pia Sommer"),
        ),
    ),
    _recipe(
        "get the weekly review any more",
        "The subscription B-655 is ended.",
        _step("find_subscriptions", address="mara@example.org"),
        _step(
            "end_subscription",
            subscription_id=_result_value("find_subscriptions", letter="weekly review"),
        ),
    ),
    _recipe(
        "flat of the tenant Olsen",
        "It has the tariff Night 2.",
        _step("find_tenants", surname="Olsen"),
        _step("list_meters", flat_id=_result_value("find_tenants")),
        _step("get_tariff", meter_id=_result_value("list_meters", measures="power")),
    ),
    _recipe("capital of Portugal", "Lisbon."),
    _recipe("Which code opens the garage", "The code of the garage is 9020."),
    _recipe(
        "Print the label of the parcel",
        "The label cannot be printed: the printer is out of service until tomorrow.",
        _step("find_parcels", recipient="Ivo Okafor"),
        _step("print_label", final=True, parcel_id=_result_value("find_parcels")),
    ),
    _recipe(
        "with arrival on 12 May",
        "There is no booking of Samuel Okoro with arrival on 12 May, so nothing was cancelled.",
        _step("find_bookings", guest="Samuel Okoro"),
    ),
    _recipe(
        "course about first aid on Monday",
        "Lena Vogt cannot be enrolled: the course on Monday is full.",
        _step("find_courses", topic="First aid"),
    ),
    _recipe(
        "from the account of Rita Maas",
        "It cannot be done: transfers are closed until Monday.",
        _step("find_accounts", owner="Rita Maas"),
        _step("find_accounts", owner="Jan Roth"),
        _step(
            "transfer",
            final=True,
            from_id=_result_value("find_accounts", "account_id", owner="Rita Maas"),
            to_id=_result_value("find_accounts", "account_id", owner="Jan Roth"),
            amount=50,
        ),
    ),
)
