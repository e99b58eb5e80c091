"""A server on this machine that remembers who knocked: paths, headers and bodies of requests."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias


@dataclass(frozen=True)
class Knock:
    """One request as it came."""

    path: str
    headers: dict[str, str] = field(repr=False)
    body: Any = field(repr=False)


Reply: TypeAlias = tuple[int, Any]


def done(_: Knock) -> Reply:
    """Answer with a word."""
    return 200, {"choices": [{"message": {"role": "assistant", "content": "Done."}}]}


@dataclass
class Listener:
    """Where it listens, and what it heard."""

    url: str
    heard: list[Knock] = field(default_factory=list, repr=False)

    @property
    def keys(self) -> set[str | None]:
        """The keys that came with the requests."""
        return {knock.headers.get("authorization") for knock in self.heard}


@contextmanager
def listening(reply: Callable[[Knock], Reply] = done) -> Iterator[Listener]:
    """Serve while the block lasts; `reply` makes status and JSON of each answer."""
    heard: list[Knock] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # or a body would wait for its head, 40 ms

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            headers = {name.lower(): value for name, value in self.headers.items()}
            heard.append(Knock(self.path, headers, body))
            status, answer = reply(heard[-1])
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield Listener(f"http://127.0.0.1:{server.server_port}", heard)
        finally:
            server.shutdown()
            thread.join()
