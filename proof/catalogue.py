"""All claims, in the order of the table."""

from proof import (
    canaries,
    chaos,
    damage,
    event_streams,
    fuzz,
    histories,
    hostile_endpoints,
    json_suite,
    kills,
    linear,
    masks,
    mutation,
    packaging,
    quirks,
    reports,
    retries,
    schema_suite,
)
from proof.claims import Claim

CLAIMS: tuple[Claim, ...] = (
    fuzz.CLAIM,
    linear.CLAIM,
    event_streams.CLAIM,
    json_suite.CLAIM,
    schema_suite.CLAIM,
    histories.CLAIM,
    masks.CLAIM,
    retries.CLAIM,
    Claim(
        "D9",
        "A thousand simultaneous runs survive faults: none lost, wrong or doubled.",
        chaos.attempt,
        (1000, 10_000, 50_000),
    ),
    Claim("D10", "A kill loses nothing and repeats nothing.", kills.attempt, (200, 1000, 3000)),
    Claim(
        "D11",
        "Damaged files are never read as another result.",
        damage.attempt,
        (1500, 20_000, 200_000),
    ),
    Claim(
        "D14",
        "A hostile endpoint costs bounded memory and time, and gets no key elsewhere.",
        hostile_endpoints.attempt,
        (54, 114, 454),
    ),
    Claim(
        "D15", "A key is found nowhere: no file, print, log or report.", canaries.attempt, (1, 1, 3)
    ),
    Claim(
        "D16", "No text of a model becomes more than text.", reports.attempt, (327, 2000, 20_000)
    ),
    Claim(
        "D17",
        "Every known quirk is a named scenario that ends as it should.",
        quirks.attempt,
        (1, 10, 50),
    ),
    Claim(
        "D18",
        "Tests notice small mistakes in the modules that matter most.",
        mutation.attempt,
        (2, 25, 1000),
    ),
    Claim(
        "D19",
        "The wheel is what git holds, and needs what it declares.",
        packaging.attempt,
        (2, 2, 3),
    ),
)
