"""Transport faults: each says what it ends in, and is unlike every other."""

from surecall.simulator.faults import SHAPE_FAULTS
from surecall.simulator.personas.behaviors import CONVERSATION_BEHAVIORS
from surecall.simulator.personas.persona import REPLY_BEHAVIORS, RETRIED
from surecall.simulator.personas.persona_catalog import PERSONAS, required_preset
from surecall.simulator.transport_faults import TRANSPORT_FAULTS
from surecall.values.errors import ErrorCode


def test_every_fault_of_a_stream_has_an_outcome_that_means_something() -> None:
    for fault in TRANSPORT_FAULTS.values():
        if fault.only_streams:
            assert fault.id.startswith("stream-")
            assert fault.outcome in {"repaired", RETRIED, ErrorCode.RESPONSE_TOO_LARGE}
            assert required_preset(PERSONAS[f"sim/{fault.id}"]) is None


def test_a_transport_fault_spoils_something_about_the_way() -> None:
    plain = {
        "sent_share": 1.0,
        "wait_s": 0.0,
        "piece_bytes": 0,
        "header_bytes": 0,
        "stream_fault": "",
    }
    for fault in TRANSPORT_FAULTS.values():
        unlike = [name for name, value in plain.items() if getattr(fault, name) != value]
        assert unlike or fault.status is not None or fault.gzip, fault.id


def test_no_two_kinds_of_faults_share_an_id() -> None:
    kinds = (SHAPE_FAULTS, TRANSPORT_FAULTS, REPLY_BEHAVIORS, CONVERSATION_BEHAVIORS)
    names = [name for kind in kinds for name in kind]

    assert sorted(set(names)) == sorted(names)
