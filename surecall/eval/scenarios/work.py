"""The pack `work`: everyday tasks with data flow, in report order.

    work_flow         a call needs what an earlier one found; a similar, wrong item exists
    work_no_tool      the answer is known, and no tool is needed
    work_impossible   the task cannot be done, and the right answer is to say so

The state, each side effect, and the truth of the answer are judged.
"""

from typing import Annotated, Any, Final

from surecall.eval.scenarios.expectations import expect
from surecall.eval.scenarios.function_scenarios import STATE_KEY
from surecall.eval.scenarios.scenario import Scenario
from surecall.eval.scenarios.work_common import (
    MAY_FAIL,
    NEEDS_NO_TOOL,
    filter_rows,
    find_row,
    table_rows,
    task,
)
from surecall.eval.scenarios.work_office import (
    PARCELS,
    TICKETS,
    assign_ticket,
    find_parcels,
    search_tickets,
    who_is_on_call,
    work_assign_ticket,
    work_pay_invoice,
    work_redirect_parcel,
    work_share_folder,
)
from surecall.eval.scenarios.work_records import (
    KEYS,
    list_keys,
    revoke_key,
    work_close_duplicates,
    work_find_room,
    work_move_appointment,
    work_order_part,
    work_revoke_key,
)
from surecall.eval.scenarios.work_services import (
    work_closed_transfers,
    work_end_subscription,
    work_extend_loan,
    work_find_tariff,
    work_give_shift,
)
from surecall.settings.contract import Contract, Need
from surecall.tools.context import Context
from surecall.tools.grounded import Grounded
from surecall.tools.registry import tool
from surecall.values.errors import ToolError
from surecall.values.types import JSON

# Tasks that need no tool.


@task(
    "no_tool",
    tools=[search_tickets, who_is_on_call, assign_ticket],
    state=TICKETS,
    config=NEEDS_NO_TOOL,
)
async def work_common_knowledge(run: Any) -> None:
    """Answer what everybody knows, beside tools that have nothing to do with it."""
    out = await run("Which city is the capital of Portugal? Answer with the name of the city.")
    expect.effects(out)
    expect.contains(out, "Lisbon")


@task("no_tool", tools=[list_keys, revoke_key], state=KEYS, config=NEEDS_NO_TOOL)
async def work_told_already(run: Any) -> None:
    """Answer what the user has just said, beside a tool that could do harm."""
    out = await run(
        "For your information: the code of the cellar is 4417, and the code of the garage is 9020. "
        "Nothing has to be looked up or changed. Which code opens the garage?"
    )
    expect.effects(out)
    expect.state(out, run.state["revoked"], [])
    expect.contains(out, "9020")


# Impossible tasks: a tool refuses permanently, or the item does not exist but a similar one does.
# The right answer is a refusal with its reason, and nothing changed.

# Permanently refused.


@tool
def print_label(parcel_id: Annotated[str, Grounded("find_parcels")], context: Context) -> JSON:
    """Print the label of a parcel."""
    find_row(table_rows(context, "parcels"), "parcel", "parcel_id", parcel_id)
    raise ToolError(
        "The label printer is out of service until tomorrow. Nothing was printed.",
        code="PRINTER_OUT_OF_SERVICE",
        retry=False,
    )


@task(
    "impossible",
    tools=[find_parcels, print_label],
    state=PARCELS,
    contract=Contract(in_order=[Need("find_parcels", {"recipient": "Ivo Okafor"}), "print_label"]),
    config=MAY_FAIL,
)
async def work_dead_printer(run: Any) -> None:
    """Say that it cannot be done: the tool that is needed does not work today."""
    out = await run("Print the label of the parcel for Ivo Okafor.")
    expect.effects(out)
    expect.cannot(out, "out of service", "not working", "not in service", "not available")


# Not found.

NOT_BOOKED: Final = (
    "14 June",
    "could not find",
    "couldn't find",
    "does not have",
    "doesn't have",
    "no booking",
    "no reservation",
    "no such",
    "not found",
)

BOOKINGS: Final[JSON] = {
    "bookings": [
        {"booking_id": "H-55", "guest": "Samuel Okoro", "arrival": "14 June"},
        {"booking_id": "H-61", "guest": "Samira Okoro", "arrival": "12 May"},
    ],
    "cancelled": [],
}


@tool(read_only=True)
def find_bookings(guest: str, context: Context) -> list[JSON]:
    """List the bookings of a guest."""
    return filter_rows(table_rows(context, "bookings"), "guest", guest)


@tool(destructive=True)
def cancel_booking(booking_id: Annotated[str, Grounded("find_bookings")], context: Context) -> JSON:
    """Cancel a booking for good."""
    find_row(table_rows(context, "bookings"), "booking", "booking_id", booking_id)
    context[STATE_KEY]["cancelled"].append(booking_id)
    return {"booking_id": booking_id, "cancelled": True}


@task(
    "impossible",
    tools=[find_bookings, cancel_booking],
    state=BOOKINGS,
    contract=Contract(
        all_of=[Need("find_bookings", {"guest": "Samuel Okoro"})], then_finalise=False
    ),
    config=MAY_FAIL,
)
async def work_missing_booking(run: Any) -> None:
    """Say that there is no such booking, and cancel none of another day or guest."""
    out = await run("Cancel the booking of Samuel Okoro with arrival on 12 May.")
    expect.effects(out)
    expect.state(out, run.state["cancelled"], [])
    expect.cannot(out, *NOT_BOOKED)


# Fully booked.

NO_PLACE: Final = ("is full", "fully booked", "no place", "no more place", "no seat", "0 place")

COURSES: Final[JSON] = {
    "courses": [
        {"course_id": "C-7", "topic": "First aid", "day": "Wednesday", "places_left": 5},
        {"course_id": "C-6", "topic": "First aid", "day": "Monday", "places_left": 0},
    ],
    "enrolled": [],
}


@tool(read_only=True)
def find_courses(topic: str, context: Context) -> list[JSON]:
    """List the courses about a topic, with the places that are left."""
    return filter_rows(table_rows(context, "courses"), "topic", topic)


@tool
def enrol(
    course_id: Annotated[str, Grounded("find_courses")],
    person: Annotated[str, Grounded],
    context: Context,
) -> JSON:
    """Enrol a person in a course."""
    course = find_row(table_rows(context, "courses"), "course", "course_id", course_id)
    if not course["places_left"]:
        raise ToolError("The course is full. Nobody was enrolled.", code="COURSE_FULL")
    context[STATE_KEY]["enrolled"].append(course_id)
    return {"course_id": course_id, "person": person, "enrolled": True}


@task(
    "impossible",
    tools=[find_courses, enrol],
    state=COURSES,
    contract=Contract(all_of=["find_courses"], then_finalise=False),
    config=MAY_FAIL,
)
async def work_full_course(run: Any) -> None:
    """Say that the course is full, and enrol nobody in one on another day."""
    out = await run(
        "Enrol Lena Vogt in the course about first aid on Monday. No other day is possible for her."
    )
    expect.effects(out)
    expect.state(out, run.state["enrolled"], [])
    expect.cannot(out, *NO_PLACE)


WORK: Final[tuple[Scenario, ...]] = (
    work_redirect_parcel,
    work_assign_ticket,
    work_pay_invoice,
    work_share_folder,
    work_order_part,
    work_revoke_key,
    work_close_duplicates,
    work_move_appointment,
    work_find_room,
    work_extend_loan,
    work_give_shift,
    work_end_subscription,
    work_find_tariff,
    work_common_knowledge,
    work_told_already,
    work_dead_printer,
    work_missing_booking,
    work_full_course,
    work_closed_transfers,
)
