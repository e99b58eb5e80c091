"""Tasks of the pack `work`: loans, shifts, subscriptions, meters, and closed transfers."""

from typing import Annotated, Any, Final

from surecall.eval.scenarios.expectations import expect
from surecall.eval.scenarios.function_scenarios import STATE_KEY
from surecall.eval.scenarios.work_common import MAY_FAIL, filter_rows, find_row, table_rows, task
from surecall.settings.contract import Contract, Need
from surecall.tools.context import Context
from surecall.tools.grounded import Grounded
from surecall.tools.registry import tool
from surecall.values.errors import ToolError
from surecall.values.types import JSON

# Loans.

LOANS: Final[JSON] = {
    "loans": [
        {"loan_id": "L-301", "reader": "Nora Lind", "title": "Birds of the coast", "due": "9 May"},
        {"loan_id": "L-305", "reader": "Nora Lind", "title": "Rivers of Asia", "due": "3 May"},
        {"loan_id": "L-306", "reader": "Nora Lind", "title": "Harbours at night", "due": "3 May"},
    ],
    "extended": [],
}


@tool(read_only=True)
def find_loans(reader: str, context: Context) -> list[JSON]:
    """List the books that a reader has borrowed."""
    return filter_rows(table_rows(context, "loans"), "reader", reader)


@tool
def extend_loan(loan_id: Annotated[str, Grounded("find_loans")], context: Context) -> JSON:
    """Extend a loan by three weeks. This can be done once."""
    find_row(table_rows(context, "loans"), "loan", "loan_id", loan_id)
    context[STATE_KEY]["extended"].append(loan_id)
    until = {"L-301": "30 May", "L-305": "24 May", "L-306": "24 May"}
    return {"loan_id": loan_id, "due": until[loan_id]}


@task(
    "flow",
    tools=[find_loans, extend_loan],
    state=LOANS,
    contract=Contract(in_order=[Need("find_loans", {"reader": "Nora Lind"}), "extend_loan"]),
)
async def work_extend_loan(run: Any) -> None:
    """Extend the loan of one of three books."""
    out = await run(
        "Nora Lind needs the book Rivers of Asia for longer. Extend that loan, and tell me until "
        "when she may keep it."
    )
    expect.effects(out, Need("extend_loan", {"loan_id": "L-305"}))
    expect.state(out, run.state["extended"], ["L-305"])
    expect.contains(out, "24 May", "May 24", "24th May", "24th of May")


# Shifts.

SHIFTS: Final[JSON] = {
    "shifts": [
        {"shift_id": "H-11", "day": "Saturday", "kind": "early", "begins": "6:00"},
        {"shift_id": "H-12", "day": "Saturday", "kind": "late", "begins": "14:00"},
        {"shift_id": "H-13", "day": "Saturday", "kind": "night", "begins": "22:00"},
    ],
    "staff": [
        {"person_id": "U-81", "name": "Paul Sommer", "ward": "north"},
        {"person_id": "U-84", "name": "Pia Sommer", "ward": "south"},
    ],
    "given": {},
}


@tool(read_only=True)
def list_shifts(day: str, context: Context) -> list[JSON]:
    """List the shifts of a day of the week."""
    return filter_rows(table_rows(context, "shifts"), "day", day)


@tool(read_only=True)
def find_staff(surname: str, context: Context) -> list[JSON]:
    """List the members of the staff with a surname."""
    return filter_rows(table_rows(context, "staff"), "name", surname)


@tool
def give_shift(
    shift_id: Annotated[str, Grounded("list_shifts")],
    person_id: Annotated[str, Grounded("find_staff")],
    context: Context,
) -> JSON:
    """Give a shift to a person, who gets a message."""
    shift = find_row(table_rows(context, "shifts"), "shift", "shift_id", shift_id)
    find_row(table_rows(context, "staff"), "person", "person_id", person_id)
    context[STATE_KEY]["given"][shift_id] = person_id
    return {"shift_id": shift_id, "person_id": person_id, "begins": shift["begins"]}


@task(
    "flow",
    tools=[list_shifts, find_staff, give_shift],
    state=SHIFTS,
    contract=Contract(
        in_order=[
            Need("list_shifts", {"day": "Saturday"}),
            Need("find_staff", {"surname": "Sommer"}),
            "give_shift",
        ]
    ),
)
async def work_give_shift(run: Any) -> None:
    """Give one of three shifts to one of two people with the same surname."""
    out = await run(
        "Pia Sommer takes the late shift on Saturday. Give it to her, and tell me when it begins."
    )
    expect.effects(out, Need("give_shift", {"shift_id": "H-12", "person_id": "U-84"}))
    expect.state(out, run.state["given"], {"H-12": "U-84"})
    expect.contains(out, "14:00", "2:00", "2 pm", "2 p.m.")


# Subscriptions.

SUBSCRIPTIONS: Final[JSON] = {
    "subscriptions": [
        {"subscription_id": "B-640", "address": "mara@example.org", "letter": "daily news"},
        {"subscription_id": "B-655", "address": "mara@example.org", "letter": "weekly review"},
        {"subscription_id": "B-671", "address": "mara@example.org", "letter": "monthly offers"},
    ],
    "ended": [],
}


@tool(read_only=True)
def find_subscriptions(address: str, context: Context) -> list[JSON]:
    """List what an address is subscribed to."""
    return filter_rows(table_rows(context, "subscriptions"), "address", address)


@tool(destructive=True)
def end_subscription(
    subscription_id: Annotated[str, Grounded("find_subscriptions")], context: Context
) -> JSON:
    """End a subscription for good."""
    known = table_rows(context, "subscriptions")
    find_row(known, "subscription", "subscription_id", subscription_id)
    context[STATE_KEY]["ended"].append(subscription_id)
    return {"subscription_id": subscription_id, "ended": True}


@task(
    "flow",
    tools=[find_subscriptions, end_subscription],
    state=SUBSCRIPTIONS,
    contract=Contract(
        in_order=[Need("find_subscriptions", {"address": "mara@example.org"}), "end_subscription"]
    ),
)
async def work_end_subscription(run: Any) -> None:
    """End one of three subscriptions for good."""
    out = await run(
        "mara@example.org does not want to get the weekly review any more. End that subscription "
        "only, and tell me its number."
    )
    expect.effects(out, Need("end_subscription", {"subscription_id": "B-655"}))
    expect.state(out, run.state["ended"], ["B-655"])
    expect.contains(out, "B-655")


# Meters.

METERS: Final[JSON] = {
    "tenants": [
        {"tenant": "Olsen", "flat_id": "W-24"},
        {"tenant": "Olsson", "flat_id": "W-42"},
    ],
    "meters": [
        {"meter_id": "M-501", "flat_id": "W-24", "measures": "water", "tariff": "Basic 1"},
        {"meter_id": "M-502", "flat_id": "W-24", "measures": "power", "tariff": "Night 2"},
        {"meter_id": "M-503", "flat_id": "W-42", "measures": "power", "tariff": "Day 3"},
    ],
    "read": [],
}


@tool(read_only=True)
def find_tenants(surname: str, context: Context) -> list[JSON]:
    """Return the tenants with a surname, and their flats."""
    return [row for row in table_rows(context, "tenants") if row["tenant"] == surname]


@tool(read_only=True)
def list_meters(flat_id: Annotated[str, Grounded("find_tenants")], context: Context) -> list[JSON]:
    """List the meters of a flat, and what they measure."""
    found = [row for row in table_rows(context, "meters") if row["flat_id"] == flat_id]
    return [{key: row[key] for key in ("meter_id", "measures")} for row in found]


@tool(read_only=True)
def get_tariff(meter_id: Annotated[str, Grounded("list_meters")], context: Context) -> JSON:
    """Return the tariff of a meter."""
    meter = find_row(table_rows(context, "meters"), "meter", "meter_id", meter_id)
    return {"meter_id": meter_id, "tariff": meter["tariff"]}


@task(
    "flow",
    tools=[find_tenants, list_meters, get_tariff],
    state=METERS,
    contract=Contract(
        in_order=[Need("find_tenants", {"surname": "Olsen"}), "list_meters", "get_tariff"]
    ),
)
async def work_find_tariff(run: Any) -> None:
    """Look three things up, with a choice between two meters on the way."""
    out = await run("Which tariff does the meter for power in the flat of the tenant Olsen have?")
    expect.effects(out)
    expect.contains(out, "Night 2")
    expect.lacks(out, "Basic 1")


# Closed transfers.

ACCOUNTS: Final[JSON] = {
    "accounts": [
        {"account_id": "K-77", "owner": "Rita Maas", "balance": 120.0},
        {"account_id": "K-79", "owner": "Jan Roth", "balance": 15.5},
    ],
    "transfers": [],
}


@tool(read_only=True)
def find_accounts(owner: str, context: Context) -> list[JSON]:
    """List the accounts of an owner."""
    return filter_rows(table_rows(context, "accounts"), "owner", owner)


@tool
def transfer(
    from_id: Annotated[str, Grounded("find_accounts")],
    to_id: Annotated[str, Grounded("find_accounts")],
    amount: Annotated[float, Grounded],
    context: Context,
) -> JSON:
    """Transfer an amount from one account to another."""
    known = table_rows(context, "accounts")
    find_row(known, "account", "account_id", from_id)
    find_row(known, "account", "account_id", to_id)
    raise ToolError(
        f"Transfers are closed until Monday. {amount} was not transferred.",
        code="TRANSFERS_CLOSED",
        retry=False,
    )


@task(
    "impossible",
    tools=[find_accounts, transfer],
    state=ACCOUNTS,
    contract=Contract(
        in_order=[
            Need("find_accounts", {"owner": "Rita Maas"}),
            Need("find_accounts", {"owner": "Jan Roth"}),
            "transfer",
        ]
    ),
    config=MAY_FAIL,
)
async def work_closed_transfers(run: Any) -> None:
    """Say that it cannot be done: no transfers are made before Monday."""
    out = await run("Transfer 50 euros from the account of Rita Maas to that of Jan Roth.")
    expect.effects(out)
    expect.state(out, run.state["transfers"], [])
    expect.cannot(out, "closed", "Monday", "not possible", "not available")
