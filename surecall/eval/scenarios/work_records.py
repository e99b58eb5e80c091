"""Tasks of the pack `work`: parts, keys, duplicates, appointments, and desks."""

from typing import Annotated, Any, Final

from surecall.eval.scenarios.expectations import expect
from surecall.eval.scenarios.function_scenarios import STATE_KEY
from surecall.eval.scenarios.work_common import filter_rows, find_row, search_rows, table_rows, task
from surecall.settings.contract import Contract, From, Need
from surecall.tools.context import Context
from surecall.tools.grounded import Grounded
from surecall.tools.registry import tool
from surecall.values.types import JSON

# Parts.

PARTS: Final[JSON] = {
    "parts": [
        {"sku": "VS-22", "name": "valve, steel, 22 mm"},
        {"sku": "VB-15", "name": "valve, brass, 15 mm"},
        {"sku": "VB-22", "name": "valve, brass, 22 mm"},
    ],
    "offers": [
        {"sku": "VB-22", "supplier_id": "L-4", "supplier": "Norda", "delivers_on": "Monday"},
        {"sku": "VB-22", "supplier_id": "L-9", "supplier": "Quist", "delivers_on": "Friday"},
        {"sku": "VS-22", "supplier_id": "L-2", "supplier": "Abel", "delivers_on": "Friday"},
    ],
    "orders": [],
}


@tool(read_only=True)
def find_parts(words: str, context: Context) -> list[JSON]:
    """Search the names of the parts; the best ones come first."""
    return search_rows(table_rows(context, "parts"), "name", words)


@tool(read_only=True)
def list_offers(sku: Annotated[str, Grounded("find_parts")], context: Context) -> list[JSON]:
    """List the suppliers that offer a part."""
    return [row for row in table_rows(context, "offers") if row["sku"] == sku]


@tool
def order_part(
    sku: Annotated[str, Grounded("find_parts", "list_offers")],
    supplier_id: Annotated[str, Grounded("list_offers")],
    quantity: Annotated[int, Grounded],
    context: Context,
) -> JSON:
    """Order a part from a supplier."""
    find_row(table_rows(context, "parts"), "part", "sku", sku)
    find_row(table_rows(context, "offers"), "supplier", "supplier_id", supplier_id)
    order = {"sku": sku, "supplier_id": supplier_id, "quantity": quantity}
    table_rows(context, "orders").append(order)
    return order | {"ordered": True}


@task(
    "flow",
    tools=[find_parts, list_offers, order_part],
    state=PARTS,
    contract=Contract(in_order=["find_parts", "list_offers", Need("order_part", {"quantity": 40})]),
)
async def work_order_part(run: Any) -> None:
    """Order one of three parts from one of two suppliers, in the right quantity."""
    out = await run(
        "Order 40 brass valves of 22 mm from the supplier that delivers on Friday, and tell me the "
        "name of the supplier."
    )
    order = {"sku": "VB-22", "supplier_id": "L-9", "quantity": 40}
    expect.effects(out, Need("order_part", order))
    expect.state(out, run.state["orders"], [order])
    expect.contains(out, "Quist")


# Keys.

KEYS: Final[JSON] = {
    "keys": [
        {"key_id": "K-090", "label": "nightly-export-old", "service": "reports"},
        {"key_id": "K-101", "label": "nightly-export", "service": "reports"},
        {"key_id": "K-133", "label": "dashboard", "service": "reports"},
    ],
    "revoked": [],
}


@tool(read_only=True)
def list_keys(service: str, context: Context) -> list[JSON]:
    """List the keys of a service, with their labels."""
    return filter_rows(table_rows(context, "keys"), "service", service)


@tool(destructive=True)
def revoke_key(key_id: Annotated[str, Grounded("list_keys")], context: Context) -> JSON:
    """Revoke a key for good."""
    find_row(table_rows(context, "keys"), "key", "key_id", key_id)
    context[STATE_KEY]["revoked"].append(key_id)
    return {"key_id": key_id, "revoked": True}


@task(
    "flow",
    tools=[list_keys, revoke_key],
    state=KEYS,
    contract=Contract(in_order=[Need("list_keys", {"service": "reports"}), "revoke_key"]),
)
async def work_revoke_key(run: Any) -> None:
    """Revoke one of three keys for good; two of them have labels that begin alike."""
    out = await run(
        "The key with the label nightly-export of the service reports has leaked. Revoke that key "
        "and no other, and tell me its id."
    )
    expect.effects(out, Need("revoke_key", {"key_id": "K-101"}))
    expect.state(out, run.state["revoked"], ["K-101"])
    expect.contains(out, "K-101")


# Duplicates.

DUPLICATES: Final[JSON] = {
    "links": [
        {"ticket_id": "T-318", "of": "T-311", "relation": "related"},
        {"ticket_id": "T-325", "of": "T-311", "relation": "duplicate"},
        {"ticket_id": "T-340", "of": "T-311", "relation": "duplicate"},
    ],
    "closed": [],
}


@tool(read_only=True)
def linked_tickets(ticket_id: Annotated[str, Grounded], context: Context) -> list[JSON]:
    """List the tickets that are linked to one, and how."""
    return [row for row in table_rows(context, "links") if row["of"] == ticket_id]


@tool
def close_ticket(ticket_id: Annotated[str, Grounded("linked_tickets")], context: Context) -> JSON:
    """Close a ticket. Its author gets a mail."""
    known = [*table_rows(context, "links"), {"ticket_id": "T-311"}]
    find_row(known, "ticket", "ticket_id", ticket_id)
    context[STATE_KEY]["closed"].append(ticket_id)
    return {"ticket_id": ticket_id, "closed": True}


@task(
    "flow",
    tools=[linked_tickets, close_ticket],
    state=DUPLICATES,
    contract=Contract(
        in_order=[Need("linked_tickets", {"ticket_id": "T-311"}), "close_ticket", "close_ticket"]
    ),
)
async def work_close_duplicates(run: Any) -> None:
    """Close two of three linked tickets, with one call each."""
    out = await run(
        "Close every ticket that is a duplicate of T-311. T-311 itself stays open, and so does "
        "what is merely related. Tell me the numbers of the tickets that you closed."
    )
    wanted = ("T-325", "T-340")
    expect.effects(out, *(Need("close_ticket", {"ticket_id": each}) for each in wanted))
    expect.state(out, sorted(run.state["closed"]), list(wanted))
    for each in wanted:
        expect.contains(out, each)


# Appointments.

APPOINTMENTS: Final[JSON] = {
    "appointments": [
        {"appointment_id": "D-70", "patient": "Jonas Weber", "kind": "check-up"},
        {"appointment_id": "D-74", "patient": "Jonas Weber", "kind": "cleaning"},
        {"appointment_id": "D-81", "patient": "Jana Weber", "kind": "cleaning"},
    ],
    "free": [
        {"slot_id": "Z-18", "dentist": "Brandt", "day": "Friday", "time": "8:00"},
        {"slot_id": "Z-15", "dentist": "Brandt", "day": "Thursday", "time": "14:30"},
    ],
    "moved": {},
}


@tool(read_only=True)
def find_appointments(patient: str, context: Context) -> list[JSON]:
    """List the appointments of a patient."""
    return filter_rows(table_rows(context, "appointments"), "patient", patient)


@tool(read_only=True)
def free_slots(dentist: str, context: Context) -> list[JSON]:
    """List the free slots of a dentist, by surname."""
    return filter_rows(table_rows(context, "free"), "dentist", dentist)


@tool
def move_appointment(
    appointment_id: Annotated[str, Grounded("find_appointments")],
    slot_id: Annotated[str, Grounded("free_slots")],
    context: Context,
) -> JSON:
    """Move an appointment to a free slot. The patient gets a message."""
    find_row(table_rows(context, "appointments"), "appointment", "appointment_id", appointment_id)
    slot = find_row(table_rows(context, "free"), "slot", "slot_id", slot_id)
    context[STATE_KEY]["moved"][appointment_id] = slot_id
    return {"appointment_id": appointment_id, "day": slot["day"], "time": slot["time"]}


@task(
    "flow",
    tools=[find_appointments, free_slots, move_appointment],
    state=APPOINTMENTS,
    contract=Contract(
        in_order=[
            Need("find_appointments", {"patient": "Jonas Weber"}),
            Need("free_slots", {"dentist": "Brandt"}),
            "move_appointment",
        ]
    ),
)
async def work_move_appointment(run: Any) -> None:
    """Move one of two appointments to one of two free slots."""
    out = await run(
        "Move the cleaning of Jonas Weber to the free slot that the dentist Brandt has on "
        "Thursday, and tell me the time."
    )
    moved = {"appointment_id": "D-74", "slot_id": "Z-15"}
    expect.effects(out, Need("move_appointment", moved))
    expect.state(out, run.state["moved"], {"D-74": "Z-15"})
    expect.contains(out, "14:30", "2:30")


# Desks.

DESKS: Final[JSON] = {
    "documents": [
        {"document_id": "N-5", "title": "Harbour view", "author_id": "U-70"},
        {"document_id": "N-9", "title": "Harbour plan", "author_id": "U-77"},
    ],
    "people": [
        {"person_id": "U-70", "name": "Ann Sund", "desk_id": "B-21"},
        {"person_id": "U-77", "name": "Tomas Ek", "desk_id": "B-12"},
    ],
    "desks": [
        {"desk_id": "B-12", "room": "4.17"},
        {"desk_id": "B-21", "room": "4.71"},
    ],
    "booked": [],
}


AUTHOR: Final = Need("get_person", {"person_id": From("find_documents", "[*].author_id")})


@tool(read_only=True)
def find_documents(title: str, context: Context) -> list[JSON]:
    """Search the titles of the documents; the best ones come first."""
    return search_rows(table_rows(context, "documents"), "title", title)


@tool(read_only=True)
def get_person(person_id: str, context: Context) -> JSON:
    """Return the name and the desk of a person."""
    return find_row(table_rows(context, "people"), "person", "person_id", person_id)


@tool(read_only=True)
def get_desk(desk_id: Annotated[str, Grounded("get_person")], context: Context) -> JSON:
    """Return the room of a desk."""
    return find_row(table_rows(context, "desks"), "desk", "desk_id", desk_id)


@tool
def book_desk(
    desk_id: Annotated[str, Grounded("get_person", "get_desk")], context: Context
) -> JSON:
    """Book a desk for the user."""
    find_row(table_rows(context, "desks"), "desk", "desk_id", desk_id)
    context[STATE_KEY]["booked"].append(desk_id)
    return {"desk_id": desk_id, "booked": True}


@task(
    "flow",
    tools=[find_documents, get_person, get_desk, book_desk],
    state=DESKS,
    contract=Contract(in_order=["find_documents", AUTHOR, "get_desk"]),
)
async def work_find_room(run: Any) -> None:
    """Look three things up, each with what the last one gave, and change nothing."""
    out = await run("In which room does the author of the document Harbour plan sit?")
    expect.effects(out)
    expect.contains(out, "4.17")
    expect.lacks(out, "4.71")
