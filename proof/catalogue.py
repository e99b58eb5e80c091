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
    Claim("D9", "1,000 simultaneous runs survive chaos", chaos.attempt, (1000, 10_000, 50_000)),
    Claim("D10", "a kill loses nothing and repeats nothing", kills.attempt, (200, 1000, 3000)),
    Claim(
        "D11",
        "damaged files are never read as another result",
        damage.attempt,
        (1500, 20_000, 200_000),
    ),
    Claim(
        "D14",
        "a hostile endpoint costs bounded memory and time",
        hostile_endpoints.attempt,
        (54, 114, 454),
    ),
    Claim("D15", "a key is found nowhere", canaries.attempt, (1, 1, 3)),
    Claim("D16", "no text of a model becomes more than text", reports.attempt, (327, 2000, 20_000)),
    Claim("D17", "every known quirk is a named scenario", quirks.attempt, (1, 10, 50)),
    Claim("D18", "tests notice mistakes", mutation.attempt, (2, 25, 1000)),
    Claim("D19", "the wheel is what git holds", packaging.attempt, (2, 2, 3)),
)
