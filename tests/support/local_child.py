"""A stand-in for the child process of a local server: no weights, the same protocol.

    python local_child.py BEHAVIOUR JOB

It says on standard output where it listens, serves `/health` and chat completions, and ends with
its standard input, unless its behaviour is another. A request that carries a key is refused.
"""

import contextlib
import json
import os
import signal
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ANSWER = {
    "id": "r1",
    "object": "chat.completion",
    "choices": [
        {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": "Done."},
        }
    ],
}


class Handler(BaseHTTPRequestHandler):
    behaviour = ""

    def do_GET(self) -> None:
        self._send(503 if self.behaviour == "sick" else 200, {"status": "ok"})
        if self.behaviour == "quits":
            # The parent hangs up once it has seen the answer.
            with contextlib.suppress(OSError):
                self.connection.shutdown(socket.SHUT_WR)
                self.rfile.read()
            os._exit(7)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.behaviour == "crashes":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.behaviour == "hangs up":
            self.connection.close()
            return
        self._send(401 if "Authorization" in self.headers else 200, ANSWER)

    def _send(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def say(**what: str) -> None:
    print(json.dumps(what), flush=True)  # noqa: T201  # the protocol


def wait_for_the_end() -> None:
    sys.stdin.read()
    os._exit(0)


def main(behaviour: str, job: str) -> None:
    host, port = (json.loads(job)["serving"][name] for name in ("host", "port"))
    sys.stderr.write("load: the file is being read\n\n")
    sys.stderr.flush()
    if behaviour == "fails":
        sys.stderr.write(
            "load: error loading model: \x1b[1mtensor 3\nload: giving up, all failed\n"
        )
        sys.exit(3)
    if behaviour == "stops":
        sys.exit(4)
    if behaviour == "refuses":
        return say(problem="there is a reason")
    if behaviour == "babbles":
        sys.stdout.write("Hello!\n")
        sys.stdout.flush()
    if behaviour == "closes":
        os.close(1)
    if behaviour in {"silent", "babbles", "closes"}:
        return wait_for_the_end()
    Handler.behaviour = behaviour
    server = ThreadingHTTPServer((host, port), Handler)
    threading.Thread(target=wait_for_the_end, daemon=True).start()
    say(url=f"http://{host}:{server.server_port}", build="stand-in 1")
    return server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
