"""How a good model does the tasks of the pack `work`: look up, take over what was found, write.

A recipe is known by words of the request. Its steps take their arguments from the request, or from
what an earlier step has found, as a model would; nothing but the way to it is written down here.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, Protocol

import msgspec

from surecall.values.types import JSON

_MISSING: Final = "unknown"


class Ended(Protocol):
    """A call of the conversation that was answered."""

    @property
    def tool(self) -> str:
        """The tool's name."""

    @property
    def ok(self) -> bool:
        """Whether it succeeded."""

    @property
    def value(self) -> Any:
        """The answer, as data."""


class Found(msgspec.Struct, frozen=True):
    """A value of an object that a tool has returned with these fields: of the first, or a later."""

    tool: str
    field: str
    where: JSON = {}
    place: int = 0

    def fits(self, item: JSON) -> bool:
        """Whether this is one of the objects that are meant."""
        same = all(item.get(key) == value for key, value in self.where.items())
        return same and self.field in item


class Step(msgspec.Struct, frozen=True):
    """One call. `final` says that it is not made again, even if it failed."""

    tool: str
    arguments: Mapping[str, Any] = {}
    final: bool = False


class Recipe(msgspec.Struct, frozen=True):
    """The calls of a task, in order, and what is said in the end."""

    words: str
    answer: str
    steps: tuple[Step, ...] = ()


def recipe_for(text: str) -> Recipe | None:
    """Return the recipe of the task that a user has given, if there is one."""
    return next((each for each in RECIPES if each.words in text), None)


def next_step(recipe: Recipe, done: Sequence[Ended]) -> Step | None:
    """Return the first step that has not been taken; None when all have."""
    tried = Counter(each.tool for each in done)
    succeeded = Counter(each.tool for each in done if each.ok)
    needed: Counter[str] = Counter()
    for step in recipe.steps:
        needed[step.tool] += 1
        taken = tried if step.final else succeeded
        if taken[step.tool] < needed[step.tool]:
            return step
    return None


def arguments_of(step: Step, done: Sequence[Ended]) -> JSON:
    """Return the arguments of a step, with what was found so far."""
    return {key: _resolved(value, done) for key, value in step.arguments.items()}


def _resolved(value: Any, done: Sequence[Ended]) -> Any:
    if not isinstance(value, Found):
        return value
    results = [each.value for each in done if each.tool == value.tool]
    fitting = (item for item in _objects(results) if value.fits(item))
    return next((item[value.field] for item in islice(fitting, value.place, None)), _MISSING)


def _objects(value: Any) -> Iterator[JSON]:
    """List the objects in a value, in their order, from the outside in."""
    waiting = [value]
    while waiting:
        inner = waiting.pop()
        if isinstance(inner, dict):
            yield inner
            waiting += reversed(inner.values())
        elif isinstance(inner, list):
            waiting += reversed(inner)


_DUPLICATE: Final = {"relation": "duplicate"}
_RIVERS: Final = {"title": "Rivers of Asia"}
_WEEKLY: Final = {"letter": "weekly review"}
_POWER: Final = {"measures": "power"}
RECIPES: Final = (
    Recipe(
        "pickup point at Market Square",
        "The parcel P-4478 goes to the pickup point at Market Square now.",
        (
            Step("find_parcels", {"recipient": "Irene Okafor"}),
            Step("find_pickup_points", {"place": "Market Square"}),
            Step(
                "redirect_parcel",
                {
                    "parcel_id": Found("find_parcels", "parcel_id", {"status": "in transit"}),
                    "point_id": Found("find_pickup_points", "point_id"),
                },
            ),
        ),
    ),
    Recipe(
        "ticket about the printer that jams",
        "The ticket is assigned to Milan Reyes, who is on call.",
        (
            Step("search_tickets", {"words": "jams"}),
            Step("who_is_on_call", {"team": "facilities"}),
            Step(
                "assign_ticket",
                {
                    "ticket_id": Found("search_tickets", "ticket_id"),
                    "person_id": Found("who_is_on_call", "person_id"),
                },
            ),
        ),
    ),
    Recipe(
        "overdue invoice of Hallberg",
        "I paid 386.20 from the account operations.",
        (
            Step("find_invoices", {"company": "Hallberg"}),
            Step("list_accounts"),
            Step(
                "pay_invoice",
                {
                    "invoice_id": Found("find_invoices", "invoice_id", {"status": "overdue"}),
                    "account_id": Found("list_accounts", "account_id", {"name": "operations"}),
                    "amount": Found("find_invoices", "amount", {"status": "overdue"}),
                },
            ),
        ),
    ),
    Recipe(
        "read the board minutes",
        "Lea Brunner may read the folder F-3 now.",
        (
            Step("find_folders", {"folder_name": "Board minutes"}),
            Step("find_people", {"surname": "Brunner"}),
            Step(
                "grant_right",
                {
                    "folder_id": Found("find_folders", "folder_id", {"name": "Board minutes"}),
                    "person_id": Found("find_people", "person_id", {"name": "Lea Brunner"}),
                    "right": "read",
                },
            ),
        ),
    ),
    Recipe(
        "brass valves of 22 mm",
        "I ordered 40 brass valves from Quist.",
        (
            Step("find_parts", {"words": "brass 22 mm"}),
            Step("list_offers", {"sku": Found("find_parts", "sku")}),
            Step(
                "order_part",
                {
                    "sku": Found("find_parts", "sku"),
                    "supplier_id": Found("list_offers", "supplier_id", {"delivers_on": "Friday"}),
                    "quantity": 40,
                },
            ),
        ),
    ),
    Recipe(
        "label nightly-export of the service reports",
        "The key K-101 is revoked.",
        (
            Step("list_keys", {"service": "reports"}),
            Step(
                "revoke_key", {"key_id": Found("list_keys", "key_id", {"label": "nightly-export"})}
            ),
        ),
    ),
    Recipe(
        "duplicate of T-311",
        "I closed T-325 and T-340.",
        (
            Step("linked_tickets", {"ticket_id": "T-311"}),
            Step("close_ticket", {"ticket_id": Found("linked_tickets", "ticket_id", _DUPLICATE)}),
            Step(
                "close_ticket",
                {"ticket_id": Found("linked_tickets", "ticket_id", _DUPLICATE, place=1)},
            ),
        ),
    ),
    Recipe(
        "cleaning of Jonas Weber",
        "The cleaning is on Thursday at 14:30 now.",
        (
            Step("find_appointments", {"patient": "Jonas Weber"}),
            Step("free_slots", {"dentist": "Brandt"}),
            Step(
                "move_appointment",
                {
                    "appointment_id": Found(
                        "find_appointments", "appointment_id", {"kind": "cleaning"}
                    ),
                    "slot_id": Found("free_slots", "slot_id", {"day": "Thursday"}),
                },
            ),
        ),
    ),
    Recipe(
        "author of the document Harbour plan",
        "The author sits in room 4.17.",
        (
            Step("find_documents", {"title": "Harbour plan"}),
            Step("get_person", {"person_id": Found("find_documents", "author_id")}),
            Step("get_desk", {"desk_id": Found("get_person", "desk_id")}),
        ),
    ),
    Recipe(
        "the book Rivers of Asia",
        "She may keep it until 24 May.",
        (
            Step("find_loans", {"reader": "Nora Lind"}),
            Step("extend_loan", {"loan_id": Found("find_loans", "loan_id", _RIVERS)}),
        ),
    ),
    Recipe(
        "late shift on Saturday",
        "Pia Sommer has the late shift, which begins at 14:00.",
        (
            Step("list_shifts", {"day": "Saturday"}),
            Step("find_staff", {"surname": "Sommer"}),
            Step(
                "give_shift",
                {
                    "shift_id": Found("list_shifts", "shift_id", {"kind": "late"}),
                    "person_id": Found("find_staff", "person_id", {"name": "Pia Sommer"}),
                },
            ),
        ),
    ),
    Recipe(
        "get the weekly review any more",
        "The subscription B-655 is ended.",
        (
            Step("find_subscriptions", {"address": "mara@example.org"}),
            Step(
                "end_subscription",
                {"subscription_id": Found("find_subscriptions", "subscription_id", _WEEKLY)},
            ),
        ),
    ),
    Recipe(
        "flat of the tenant Olsen",
        "It has the tariff Night 2.",
        (
            Step("find_tenants", {"surname": "Olsen"}),
            Step("list_meters", {"flat_id": Found("find_tenants", "flat_id")}),
            Step("get_tariff", {"meter_id": Found("list_meters", "meter_id", _POWER)}),
        ),
    ),
    Recipe("capital of Portugal", "Lisbon."),
    Recipe("Which code opens the garage", "The code of the garage is 9020."),
    Recipe(
        "Print the label of the parcel",
        "The label cannot be printed: the printer is out of service until tomorrow.",
        (
            Step("find_parcels", {"recipient": "Ivo Okafor"}),
            Step("print_label", {"parcel_id": Found("find_parcels", "parcel_id")}, final=True),
        ),
    ),
    Recipe(
        "with arrival on 12 May",
        "There is no booking of Samuel Okoro with arrival on 12 May, so nothing was cancelled.",
        (Step("find_bookings", {"guest": "Samuel Okoro"}),),
    ),
    Recipe(
        "course about first aid on Monday",
        "Lena Vogt cannot be enrolled: the course on Monday is full.",
        (Step("find_courses", {"topic": "First aid"}),),
    ),
    Recipe(
        "from the account of Rita Maas",
        "It cannot be done: transfers are closed until Monday.",
        (
            Step("find_accounts", {"owner": "Rita Maas"}),
            Step("find_accounts", {"owner": "Jan Roth"}),
            Step(
                "transfer",
                {
                    "from_id": Found("find_accounts", "account_id", {"owner": "Rita Maas"}),
                    "to_id": Found("find_accounts", "account_id", {"owner": "Jan Roth"}),
                    "amount": 50,
                },
                final=True,
            ),
        ),
    ),
)
