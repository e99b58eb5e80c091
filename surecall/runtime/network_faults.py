"""What can go wrong on the way to an endpoint and back, each in our own words.

The words of the error itself may quote the request, and with it the key; they are never used.
`aiohttp` is imported inside functions only, like in the transport.
"""

from surecall.settings.connection import Limits
from surecall.values.errors import ErrorCode, Fault


def fault_of_error(error: Exception, place: str, limits: Limits) -> Fault:
    """Say what went wrong."""
    kinds = (*_timeouts(place, limits), *_garbage(place), *_connection_faults(place))
    return next(fault for kind, fault in kinds if isinstance(error, kind))


def _timeouts(place: str, limits: Limits) -> tuple[tuple[type[Exception], Fault], ...]:
    import aiohttp  # noqa: PLC0415 - see the module's first lines

    def late(message: str, hint: str) -> Fault:
        return Fault(ErrorCode.TIMEOUT, message, hint=hint, retryable=True)

    return (
        (
            aiohttp.ConnectionTimeoutError,
            late(
                f"Connect timeout: no connection to {place} within {limits.connect_s:g} s.",
                "Check the URL and the network, or raise limits.connect_s.",
            ),
        ),
        (
            aiohttp.SocketTimeoutError,
            late(
                f"Idle timeout: {place} sent nothing for {limits.idle_s:g} s.",
                "Raise limits.idle_s if the model needs longer to think.",
            ),
        ),
        (
            TimeoutError,
            late(
                f"Total timeout: no complete answer from {place} within {limits.total_s:g} s.",
                "Raise limits.total_s if the model needs longer to answer.",
            ),
        ),
    )


def _garbage(place: str) -> tuple[tuple[type[Exception], Fault], ...]:
    import aiohttp  # noqa: PLC0415 - see the module's first lines

    unreadable = Fault(
        ErrorCode.DECODE_ERROR,
        f"{place} sent an answer that is not HTTP, is compressed in an unknown way, or has headers "
        "that are too large.",
        hint="Check that the URL is that of an HTTP API.",
    )
    misspelt = Fault(
        ErrorCode.CONNECTION_ERROR,
        f"{place} is not a host name one can connect to.",
        hint="Check the URL.",
    )
    return (
        # The proxy's refusal is a response error too; it belongs to the connection's faults.
        (aiohttp.ClientHttpProxyError, _proxy_fault(place)),
        (aiohttp.ClientResponseError, unreadable),
        (aiohttp.InvalidURL, misspelt),
        (UnicodeError, misspelt),
    )


def _connection_faults(place: str) -> tuple[tuple[type[Exception], Fault], ...]:
    import aiohttp  # noqa: PLC0415 - see the module's first lines

    def lost(message: str, hint: str) -> Fault:
        return Fault(ErrorCode.CONNECTION_ERROR, message, hint=hint, retryable=True)

    again = "Try again; if it stays, look at the server's log."
    return (
        (aiohttp.ClientProxyConnectionError, _proxy_fault(place)),
        (
            aiohttp.ClientConnectorDNSError,
            lost(f"The host name of {place} cannot be resolved.", "Check the URL and the network."),
        ),
        (
            aiohttp.ClientSSLError,
            lost(
                f"No TLS connection to {place}.",
                "Check the certificate, and whether the URL should start with http://.",
            ),
        ),
        (
            aiohttp.ClientConnectorError,
            lost(f"Cannot connect to {place}.", "Check the URL, and whether the server runs."),
        ),
        (
            aiohttp.ClientPayloadError,
            lost(f"{place} broke off its answer, or garbled it.", again),
        ),
        (Exception, lost(f"{place} closed the connection without an answer.", again)),
    )


def _proxy_fault(place: str) -> Fault:
    return Fault(
        ErrorCode.CONNECTION_ERROR,
        f"The proxy for {place} cannot be reached, or refused the connection.",
        hint="Check HTTPS_PROXY, HTTP_PROXY and NO_PROXY in the environment.",
        retryable=True,
    )


def too_large(place: str, limits: Limits) -> Fault:
    """Say that an answer goes beyond the limit."""
    return Fault(
        ErrorCode.RESPONSE_TOO_LARGE,
        f"The answer of {place} exceeds {limits.max_response_bytes} bytes.",
        hint="Raise limits.max_response_bytes if answers of that size are expected.",
    )
