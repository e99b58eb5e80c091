"""All claims, in the order of the table."""

from proof import (
    canaries,
    chaos,
    clean_exchanges,
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
    chaos.CLAIM,
    kills.CLAIM,
    damage.CLAIM,
    hostile_endpoints.CLAIM,
    canaries.CLAIM,
    reports.CLAIM,
    quirks.CLAIM,
    mutation.CLAIM,
    packaging.CLAIM,
    clean_exchanges.CLAIM,
)
