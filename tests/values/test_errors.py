"""Codes, faults and errors: written once, told in one line, the same after a journey."""

import pickle

import msgspec
import pytest

from surecall.values.errors import (
    ConfigError,
    ErrorCode,
    Fault,
    ProviderError,
    ReplayDiverged,
    SurecallError,
    ToolError,
)


def test_a_code_is_the_text_of_its_own_name_and_has_a_sentence() -> None:
    for code in ErrorCode:
        assert code == code.name == code.value == f"{code}"
        assert ErrorCode[code.value] is code
        assert code.meaning.endswith(".")
    assert len({code.meaning for code in ErrorCode}) == len(ErrorCode)


def test_a_code_is_written_as_text_and_read_back_as_itself() -> None:
    for code in ErrorCode:
        written = msgspec.json.encode(code)
        assert written == f'"{code.name}"'.encode()
        assert msgspec.json.decode(written, type=ErrorCode) is code
        assert pickle.loads(pickle.dumps(code)) is code  # noqa: S301  # our own


@pytest.mark.parametrize(
    ("fault", "line"),
    [
        (Fault(ErrorCode.TIMEOUT, "Too late"), "TIMEOUT: Too late"),
        (Fault(ErrorCode.AUTH, "no", 401, "Acme"), "AUTH (HTTP 401) [Acme]: no"),
        (Fault(ErrorCode.AUTH, "no", hint="Log in."), "AUTH: no. Log in."),
        (Fault(ErrorCode.AUTH, "Really?", hint="Log in."), "AUTH: Really? Log in."),
        (Fault(ErrorCode.AUTH, "No.", hint="Log in."), "AUTH: No. Log in."),
        (
            Fault(ErrorCode.RATE_LIMIT, "Slow.", 429, hint="Wait.", retry_after=2.50),
            "RATE_LIMIT (HTTP 429): Slow. Wait. Retry after 2.5 s.",
        ),
        (Fault(ErrorCode.RATE_LIMIT, "Slow.", retry_after=0), "RATE_LIMIT: Slow."),
    ],
)
def test_a_fault_is_one_line_with_what_is_known(fault: Fault, line: str) -> None:
    assert str(fault) == line


def test_the_body_of_a_fault_is_kept_and_not_printed() -> None:
    fault = Fault(ErrorCode.AUTH, "no", body="<html>secret</html>")

    assert "secret" not in str(fault)
    assert msgspec.json.decode(msgspec.json.encode(fault), type=Fault) == fault


def test_a_caller_can_catch_everything_or_what_python_calls_it() -> None:
    for kind in (ConfigError, ToolError, ProviderError, ReplayDiverged):
        assert issubclass(kind, SurecallError)
    assert issubclass(ConfigError, ValueError)


def test_a_tool_may_choose_the_code_of_its_error() -> None:
    assert ToolError("no such order").code == ErrorCode.ARGUMENT_ERROR
    assert ToolError("no such order", code="NO_ORDER").code == "NO_ORDER"


def test_an_error_of_a_provider_says_what_its_fault_says() -> None:
    fault = Fault(ErrorCode.AUTH, "no", 401, hint="Log in.")
    error = ProviderError(fault)

    assert str(error) == str(fault)
    assert (error.code, error.status, error.hint) == (ErrorCode.AUTH, 401, "Log in.")


@pytest.mark.parametrize(
    "error",
    [
        ConfigError("no"),
        ToolError("no"),
        ProviderError(Fault(ErrorCode.AUTH, "no", 401)),
        ReplayDiverged(3, "another way"),
    ],
)
def test_an_error_is_the_same_after_it_was_pickled(error: SurecallError) -> None:
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301  # our own

    assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))


def test_a_divergence_names_its_turn() -> None:
    error = ReplayDiverged(3, "another way")

    assert (error.turn, str(error)) == (3, "turn 3: another way")
