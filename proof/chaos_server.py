"""A simulator whose every fault is known beforehand: a hash of seed, run, request and attempt.

It answers as the clean persona. A share of its answers meets a fault of transport, another share
comes in a wrong shape; a shape counts only if it really changed the body.
"""

import hashlib
import random
from collections import Counter
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any, Final

import msgspec

from surecall.simulator.faults import SHAPE_FAULTS, apply_fault
from surecall.simulator.personas.persona import (
    REPAIRED,
    RETRIED,
    Persona,
    PersonaReply,
    answer_request,
    fault_outcome,
)
from surecall.simulator.server import Simulator, encode_stream
from surecall.simulator.stream_events import is_streamable, wants_usage, without_streaming
from surecall.simulator.transport_faults import TRANSPORT_FAULTS, TransportFault
from surecall.values.types import JSON

BANDWIDTH: Final = TransportFault(
    id="bandwidth",
    summary="the answer comes through a narrow line",
    outcome=REPAIRED,
    piece_bytes=128,
    pause_s=0.01,
)
# Reset, blackhole, limit_data, slicer, latency, bandwidth; the first three lose the answer.
PLAIN_FAULTS: Final = ("reset", "silent", "cut", "drip", "slow", "bandwidth")
STREAM_FAULTS: Final = (
    *("stream-reset", "stream-silent", "stream-cut", "stream-torn", "slow", "bandwidth"),
)
SHAPES: Final = tuple(
    fault.id
    for fault in SHAPE_FAULTS.values()
    # A blank answer is not asked for again but talked about, so it is no failed attempt.
    if fault.outcome == REPAIRED or (fault.outcome == RETRIED and fault.family != "loop")
)
STREAMED_SHAPES: Final = tuple(
    fault.id
    for fault in TRANSPORT_FAULTS.values()
    if fault.stream_fault and fault.outcome in {REPAIRED, RETRIED}
)


class Plan(msgspec.Struct, frozen=True):
    """Which share of the answers is spoilt, and how."""

    seed: int
    transport: float = 0.1
    drift: float = 0.1

    def chance(self, run: str, request: int, attempt: int) -> random.Random:
        """Return the dice of one answer; the same ones for the same answer."""
        text = f"{self.seed}\0{run}\0{request}\0{attempt}"
        return random.Random(hashlib.sha256(text.encode()).digest())


class Sent(msgspec.Struct, frozen=True):
    """One answer: whose, and what was done to it. `lossy`: nobody could have read it."""

    run: str
    request: int
    attempt: int
    fault: str = ""
    kind: str = ""
    lossy: bool = False


class ChaosSimulator(Simulator):
    """Sends what the plan says, and remembers it."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(seed=plan.seed)
        self.sent: list[Sent] = []
        self._plan = plan
        self._attempts: Counter[tuple[str, int]] = Counter()

    def _said(self, persona: Persona, body: JSON) -> PersonaReply:
        run, request = place_of(body)
        self._attempts[run, request] += 1
        attempt = self._attempts[run, request]
        clean = answer_request(persona, without_streaming(body), self.seed).body
        said, kind = spoilt(self._plan, self._plan.chance(run, request, attempt), clean, body)
        lossy = said.fault != "" and fault_outcome(said.fault) == RETRIED
        self.sent.append(Sent(run, request, attempt, said.fault, kind, lossy))
        return said


def place_of(body: JSON) -> tuple[str, int]:
    """Return the run that a request belongs to, and how far it has come."""
    messages = body["messages"]
    asked = next(str(one["content"]) for one in messages if one["role"] == "user")
    run = next(word for word in asked.split() if word.startswith("workspace_id="))
    return run.partition("=")[2], len(messages)


def spoilt(
    plan: Plan, chance: random.Random, clean: JSON, request: JSON
) -> tuple[PersonaReply, str]:
    """Do to an answer what the dice say; return it with the kind of its fault."""
    drawn = chance.random()
    streams = bool(request.get("stream"))
    if drawn < plan.transport:
        return PersonaReply(
            clean, chance.choice(STREAM_FAULTS if streams else PLAIN_FAULTS)
        ), "transport"
    if drawn < plan.transport + plan.drift:
        bent = next(_effective(chance, clean, request), None)
        if bent is not None:
            return bent, "drift"
    return PersonaReply(clean), ""


def _effective(chance: random.Random, clean: JSON, request: JSON) -> Iterator[PersonaReply]:
    """Yield bent answers in an order of chance, leaving out what changes nothing."""
    streams = bool(request.get("stream")) and is_streamable(clean)
    names = [*SHAPES, *(STREAMED_SHAPES if streams else ())]
    for name in chance.sample(names, len(names)):
        seed = chance.getrandbits(32)
        if name in SHAPES:
            bent: Any = apply_fault(name, clean, seed, request.get("tools") or ())
            if bent != clean:
                yield PersonaReply(bent, name)
        elif encode_stream(
            TRANSPORT_FAULTS[name], clean, usage=wants_usage(request), seed=seed
        ).is_faulty:
            yield PersonaReply(clean, name)


def serve(plan: Plan, line: Connection) -> None:
    """Serve in this process; tell the address, and whenever asked, what was sent since."""
    TRANSPORT_FAULTS[BANDWIDTH.id] = BANDWIDTH
    with ChaosSimulator(plan) as simulator:
        line.send(simulator.url)
        while line.recv():
            told, simulator.sent = simulator.sent, []
            line.send((told, [str(one) for one in simulator.violations]))
            simulator.violations.clear()
