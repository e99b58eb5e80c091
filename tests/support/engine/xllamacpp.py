"""A stand-in for the engine itself, to be found in its place by a child that is the real one.

What it does depends on the name of the model's file: `slow` keeps the interpreter to itself while
it loads, as native code does; `broken` cannot be loaded.
"""

import ctypes
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

__version__ = "9.9"
BUILD_INFO = {"build_number": 77, "commit": "abc"}
# Far longer than a test waits: only the end of its parent may end the child.
_LOADING_S = 3600


class CommonParams(SimpleNamespace):
    def __init__(self) -> None:
        super().__init__(
            model=SimpleNamespace(path=""),
            model_alias="",
            cpuparams=SimpleNamespace(n_threads=-1),
            cpuparams_batch=SimpleNamespace(n_threads=-1),
        )


class _Healthy(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


class Server:
    def __init__(self, params: Any) -> None:
        path = Path(params.model.path)
        print("this line must not reach the parent's ear", flush=True)  # noqa: T201
        if path.stem == "broken":
            raise RuntimeError("Failed to init server, please check the input params.")
        server = ThreadingHTTPServer((params.hostname, params.port), _Healthy)
        path.with_suffix(".port").write_text(str(server.server_port))
        if path.stem == "slow":
            ctypes.PyDLL(None).sleep(_LOADING_S)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.listening_address = f"http://{params.hostname}:{server.server_port}"
