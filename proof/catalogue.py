"""All claims, in the order of the table."""

from proof.claims import Claim

CLAIMS: tuple[Claim, ...] = ()
