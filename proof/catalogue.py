"""All claims, in the order of the table."""

from proof import (
    json_suite,
    schema_suite,
)
from proof.claims import Claim

CLAIMS: tuple[Claim, ...] = (
    json_suite.CLAIM,
    schema_suite.CLAIM,
)
