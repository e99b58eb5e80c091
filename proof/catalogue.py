"""All claims, in the order of the table."""

from proof import (
    event_streams,
    json_suite,
    masks,
    retries,
    schema_suite,
)
from proof.claims import Claim

CLAIMS: tuple[Claim, ...] = (
    event_streams.CLAIM,
    json_suite.CLAIM,
    schema_suite.CLAIM,
    masks.CLAIM,
    retries.CLAIM,
)
