"""Tasks of the pack `work`: parcels, tickets, invoices, folders."""

from typing import Annotated, Any, Final, Literal

from surecall.eval.scenarios.expectations import expect
from surecall.eval.scenarios.function_scenarios import STATE_KEY
from surecall.eval.scenarios.work_common import filter_rows, find_row, search_rows, table_rows, task
from surecall.settings.contract import Contract, Need
from surecall.tools.context import Context
from surecall.tools.grounded import Grounded
from surecall.tools.registry import tool
from surecall.values.types import JSON

# Parcels.

PARCELS: Final[JSON] = {
    "parcels": [
        {
            "parcel_id": "P-4411",
            "recipient": "Irene Okafor",
            "contents": "books",
            "status": "delivered",
        },
        {
            "parcel_id": "P-4478",
            "recipient": "Irene Okafor",
            "contents": "a lamp",
            "status": "in transit",
        },
        {
            "parcel_id": "P-4502",
            "recipient": "Ivo Okafor",
            "contents": "tiles",
            "status": "in transit",
        },
    ],
    "points": [
        {"point_id": "S-71", "place": "Market Street"},
        {"point_id": "S-17", "place": "Market Square"},
    ],
    "redirected": {},
}


@tool(read_only=True)
def find_parcels(recipient: str, context: Context) -> list[JSON]:
    """List the parcels of a recipient, by name."""
    return filter_rows(table_rows(context, "parcels"), "recipient", recipient)


@tool(read_only=True)
def find_pickup_points(place: str, context: Context) -> list[JSON]:
    """Search the pickup points by the name of a street or a square."""
    return search_rows(table_rows(context, "points"), "place", place)


@tool
def redirect_parcel(
    parcel_id: Annotated[str, Grounded("find_parcels")],
    point_id: Annotated[str, Grounded("find_pickup_points")],
    context: Context,
) -> JSON:
    """Send a parcel to a pickup point. Each redirection costs a fee."""
    parcel = find_row(table_rows(context, "parcels"), "parcel", "parcel_id", parcel_id)
    point = find_row(table_rows(context, "points"), "pickup point", "point_id", point_id)
    context[STATE_KEY]["redirected"][parcel_id] = point_id
    return {"parcel_id": parcel["parcel_id"], "now_goes_to": point["place"]}


@task(
    "flow",
    tools=[find_parcels, find_pickup_points, redirect_parcel],
    state=PARCELS,
    contract=Contract(
        in_order=[
            Need("find_parcels", {"recipient": "Irene Okafor"}),
            "find_pickup_points",
            "redirect_parcel",
        ]
    ),
)
async def work_redirect_parcel(run: Any) -> None:
    """Send the one of three parcels that is in transit to one of two pickup points."""
    out = await run(
        "The parcel for Irene Okafor that is still in transit should go to the pickup point at "
        "Market Square. Redirect it, and tell me the number of the parcel."
    )
    expect.effects(out, Need("redirect_parcel", {"parcel_id": "P-4478", "point_id": "S-17"}))
    expect.state(out, run.state["redirected"], {"P-4478": "S-17"})
    expect.contains(out, "P-4478")


# Tickets.

TICKETS: Final[JSON] = {
    "tickets": [
        {"ticket_id": "T-214", "title": "Printer driver is out of date", "assigned_to": None},
        {"ticket_id": "T-208", "title": "Printer on floor 2 jams", "assigned_to": None},
        {"ticket_id": "T-219", "title": "Projector on floor 2 is dark", "assigned_to": None},
    ],
    "on_call": [
        {"team": "desktop", "person_id": "U-12", "name": "Sara Lindqvist"},
        {"team": "facilities", "person_id": "U-31", "name": "Milan Reyes"},
    ],
}


@tool(read_only=True)
def search_tickets(words: str, context: Context) -> list[JSON]:
    """Search the titles of the open tickets; the best ones come first."""
    return search_rows(table_rows(context, "tickets"), "title", words)


@tool(read_only=True)
def who_is_on_call(team: Literal["desktop", "facilities"], context: Context) -> JSON:
    """Say who is on call in a team."""
    return find_row(table_rows(context, "on_call"), "team", "team", team)


@tool(idempotent=True)
def assign_ticket(
    ticket_id: Annotated[str, Grounded("search_tickets")],
    person_id: Annotated[str, Grounded("who_is_on_call")],
    context: Context,
) -> JSON:
    """Assign a ticket to a person."""
    ticket = find_row(table_rows(context, "tickets"), "ticket", "ticket_id", ticket_id)
    person = find_row(table_rows(context, "on_call"), "person", "person_id", person_id)
    ticket["assigned_to"] = person_id
    return {"ticket_id": ticket_id, "assigned_to": person["name"]}


@task(
    "flow",
    tools=[search_tickets, who_is_on_call, assign_ticket],
    state=TICKETS,
    contract=Contract(
        in_order=["search_tickets", Need("who_is_on_call", {"team": "facilities"}), "assign_ticket"]
    ),
)
async def work_assign_ticket(run: Any) -> None:
    """Assign one of two tickets about printers to whoever is on call."""
    out = await run(
        "There is a ticket about the printer that jams. Assign it to the person who is on call in "
        "the team facilities, and tell me who that is."
    )
    expect.effects(out, Need("assign_ticket", {"ticket_id": "T-208", "person_id": "U-31"}))
    assigned = {row["ticket_id"]: row["assigned_to"] for row in run.state["tickets"]}
    expect.state(out, assigned, {"T-214": None, "T-208": "U-31", "T-219": None})
    expect.contains(out, "Reyes")


# Invoices.

INVOICES: Final[JSON] = {
    "invoices": [
        {"invoice_id": "INV-881", "company": "Hallberg", "amount": 1240.5, "status": "paid"},
        {"invoice_id": "INV-915", "company": "Hallberg", "amount": 77.25, "status": "open"},
        {"invoice_id": "INV-902", "company": "Hallberg", "amount": 386.2, "status": "overdue"},
    ],
    "accounts": [
        {"account_id": "A-1", "name": "payroll"},
        {"account_id": "A-2", "name": "operations"},
    ],
    "payments": [],
}


@tool(read_only=True)
def find_invoices(company: str, context: Context) -> list[JSON]:
    """List the invoices of a company."""
    return filter_rows(table_rows(context, "invoices"), "company", company)


@tool(read_only=True)
def list_accounts(context: Context) -> list[JSON]:
    """List the accounts that can be paid from."""
    return table_rows(context, "accounts")


@tool
def pay_invoice(
    invoice_id: Annotated[str, Grounded("find_invoices")],
    account_id: Annotated[str, Grounded("list_accounts")],
    amount: Annotated[float, Grounded("find_invoices")],
    context: Context,
) -> JSON:
    """Pay an amount for an invoice from an account."""
    find_row(table_rows(context, "invoices"), "invoice", "invoice_id", invoice_id)
    find_row(table_rows(context, "accounts"), "account", "account_id", account_id)
    payment = {"invoice_id": invoice_id, "account_id": account_id, "amount": amount}
    table_rows(context, "payments").append(payment)
    return payment | {"paid": True}


@task(
    "flow",
    tools=[find_invoices, list_accounts, pay_invoice],
    state=INVOICES,
    contract=Contract(
        in_order=[
            Need("find_invoices", {"company": "Hallberg"}),
            "list_accounts",
            "pay_invoice",
        ]
    ),
)
async def work_pay_invoice(run: Any) -> None:
    """Pay the overdue one of three invoices, from the right account and to the cent."""
    out = await run(
        "Pay the overdue invoice of Hallberg in full, from the account operations. Tell me the "
        "amount."
    )
    payment = {"invoice_id": "INV-902", "account_id": "A-2", "amount": 386.2}
    expect.effects(out, Need("pay_invoice", payment))
    expect.state(out, run.state["payments"], [payment])
    expect.contains(out, "386.2")


# Folders.

FOLDERS: Final[JSON] = {
    "folders": [
        {"folder_id": "F-8", "name": "Board minutes, drafts"},
        {"folder_id": "F-3", "name": "Board minutes"},
    ],
    "people": [
        {"person_id": "U-58", "name": "Leo Brunner", "department": "Sales"},
        {"person_id": "U-51", "name": "Lea Brunner", "department": "Legal"},
    ],
    "rights": [],
}


@tool(read_only=True)
def find_folders(folder_name: str, context: Context) -> list[JSON]:
    """Search the names of the folders; the best ones come first."""
    return search_rows(table_rows(context, "folders"), "name", folder_name)


@tool(read_only=True)
def find_people(surname: str, context: Context) -> list[JSON]:
    """List the people with a surname."""
    return filter_rows(table_rows(context, "people"), "name", surname)


@tool(idempotent=True)
def grant_right(
    folder_id: Annotated[str, Grounded("find_folders")],
    person_id: Annotated[str, Grounded("find_people")],
    right: Literal["read", "write"],
    context: Context,
) -> JSON:
    """Give a person a right to a folder."""
    find_row(table_rows(context, "folders"), "folder", "folder_id", folder_id)
    find_row(table_rows(context, "people"), "person", "person_id", person_id)
    granted = {"folder_id": folder_id, "person_id": person_id, "right": right}
    if granted not in table_rows(context, "rights"):
        table_rows(context, "rights").append(granted)
    return granted | {"granted": True}


@task(
    "flow",
    tools=[find_folders, find_people, grant_right],
    state=FOLDERS,
    contract=Contract(
        in_order=[
            "find_folders",
            Need("find_people", {"surname": "Brunner"}),
            Need("grant_right", {"right": "read"}),
        ]
    ),
)
async def work_share_folder(run: Any) -> None:
    """Share one of two folders with one of two people who have the same surname."""
    out = await run(
        "Lea Brunner from Legal should be able to read the board minutes, but not the drafts. Give "
        "her the right to read that folder, and tell me the id of the folder."
    )
    granted = {"folder_id": "F-3", "person_id": "U-51", "right": "read"}
    expect.effects(out, Need("grant_right", granted))
    expect.state(out, run.state["rights"], [granted])
    expect.contains(out, "F-3")
