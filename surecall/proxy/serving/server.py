"""The proxy's server: one address for agents, one upstream behind it.

    POST /v1/chat/completions    OpenAI's chat completions
    POST /v1/responses           OpenAI's responses
    POST /v1/messages            Anthropic's messages, and /v1/messages/count_tokens
    any other path under /v1     passed through
    GET  /surecall/<token>/      the last requests, for a browser

    async with Proxy("https://openrouter.ai/api") as proxy:
        client = openai.AsyncOpenAI(base_url=f"{proxy.url}/v1")

Who may come in is decided before anything is read: see `Door`. Where a request goes is decided
when the proxy starts.
"""

import hmac
import secrets
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Self

from aiohttp import web

from surecall.proxy.faces.chat import Chat
from surecall.proxy.faces.face import Face, Failure, Refused
from surecall.proxy.faces.messages import Messages
from surecall.proxy.faces.responses import Responses
from surecall.proxy.healing.memory import Memory
from surecall.proxy.healing.passing import passes
from surecall.proxy.healing.settings import ProxySettings
from surecall.proxy.serving.page import render_page
from surecall.proxy.serving.passage import Passage, is_plain_path
from surecall.proxy.serving.record import Record, Records
from surecall.proxy.serving.upstream import Upstream
from surecall.proxy.serving.visit import NO_RETRY, Parts, Visit, answer, key_of
from surecall.runtime.event_loop_thread import in_background
from surecall.runtime.loopback import LOOPBACK, is_loopback
from surecall.runtime.loopback_server import BODY_S, HEAD_S, Door
from surecall.settings.capabilities import canonical_provider, provider_of
from surecall.settings.connection import DEFAULT_LIMITS, Limits, RetryPolicy
from surecall.values.errors import ConfigError
from surecall.values.types import Secret

MAX_REQUEST_BYTES: Final = 32 * 1024 * 1024
KEEP_ALIVE_S: Final = 5.0
_TOKEN_BYTES: Final = 18
_PREFIX: Final = "/v1"
_PAGE: Final = "/surecall/"
_COUNT: Final = "/messages/count_tokens"
_METHODS: Final = frozenset({"GET", "POST", "DELETE"})
# Endpoints that take the marks of a cache in the parts of a message.
_KEEP_CACHE_CONTROL: Final = frozenset({"anthropic", "openrouter"})
_CHAT: Final = Chat()


class Proxy:
    """A proxy in front of one upstream, in the running event loop or in a thread of its own.

    `upstream` is the address of an OpenAI-compatible endpoint, `api_key` the key to send there;
    without one, each client's own key goes on. A `token` is what clients must show instead;
    anything but loopback needs one. `settings` are those of `ProxySettings`: `provider`, `presets`,
    `repair`, `guards`, `stream`.
    """

    def __init__(  # noqa: PLR0913  # settings, all by keyword
        self,
        upstream: str,
        *,
        api_key: str | Secret | None = None,
        host: str = LOOPBACK,
        port: int = 0,
        token: str | None = None,
        trace_dir: str | Path | None = None,
        limits: Limits = DEFAULT_LIMITS,
        retry: RetryPolicy | None = None,
        watch: Callable[[Record], object] | None = None,
        keep_alive_s: float = KEEP_ALIVE_S,
        head_s: float = HEAD_S,
        body_s: float = BODY_S,
        **settings: Any,
    ) -> None:
        self.url = self.page = ""
        self.records = Records(watch)
        self._upstream = Upstream(upstream, api_key, limits=limits)
        self._parts = Parts(
            self._upstream,
            _settings(self._upstream.base_url, **settings),
            Memory(),
            self.records,
            retry or RetryPolicy(),
            keep_alive_s,
            None if trace_dir is None else Path(trace_dir),
            _checked_token(host, token),
        )
        self._port = port
        self._door = Door(host, self._refused, head_s=head_s, body_s=body_s)
        self._page_token = secrets.token_urlsafe(_TOKEN_BYTES)
        self._faces = _faces(self._parts.settings.provider)
        self._cleanup = ExitStack()
        self._runner: web.AppRunner | None = None

    @property
    def upstream(self) -> str:
        """The address behind the proxy, without its query."""
        return self._upstream.base_url

    async def __aenter__(self) -> Self:
        self._runner = await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._runner is not None:
            await self.stop(self._runner)

    def __enter__(self) -> Self:
        self._cleanup = in_background(self.start, self.stop)
        return self

    def __exit__(self, *_: object) -> None:
        self._cleanup.close()

    async def start(self) -> web.AppRunner:
        """Listen, in the running event loop."""
        if self._parts.trace_dir is not None:
            self._parts.trace_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        app = web.Application(client_max_size=MAX_REQUEST_BYTES)
        app.router.add_route("*", "/{tail:.*}", self._handle)
        runner = await self._door.open(app, self._port, handler_cancellation=True)
        await self._upstream.__aenter__()
        self.url = self._door.url
        self.page = f"{self.url}{_PAGE}{self._page_token}/"
        return runner

    async def stop(self, runner: web.AppRunner) -> None:
        """Stop listening."""
        await runner.cleanup()
        await self._upstream.__aexit__()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        path = request.raw_path.partition("?")[0]
        if path.startswith(_PAGE):
            return self._shown(request)
        while path == _PREFIX or path.startswith(f"{_PREFIX}/"):
            path = path.removeprefix(_PREFIX)
        face = self._faces.get(path.removesuffix("/count_tokens"), _CHAT)
        if (failure := self._problem(request)) is not None:
            return answer(failure.status, face.error(failure), NO_RETRY)
        try:
            if request.method == "POST" and path == _COUNT:
                return answer(200, Messages().count_tokens(await request.read()))
            if request.method == "POST" and path in self._faces:
                return await self._answered(request, face)
            return await self._passed(request, path)
        except Refused as refused:
            failure = Failure(refused.status, refused.message, "invalid_request", refused.param)
            return answer(refused.status, face.error(failure), NO_RETRY)

    def _problem(self, request: web.Request) -> Failure | None:
        """Say why a request is not served, before anything of it is read."""
        if request.headers.get("Sec-Fetch-Mode") == "navigate":
            return Failure(403, "a browser may open the page of the last requests only", "refused")
        if not self._is_allowed(request):
            return Failure(401, "this proxy wants its token as the key", "invalid_api_key")
        return None

    def _is_allowed(self, request: web.Request) -> bool:
        token = self._parts.token
        if token is None:
            return True
        shown = key_of(request.headers).encode("utf-8", "surrogateescape")
        return hmac.compare_digest(shown, token.reveal().encode())

    def _shown(self, request: web.Request) -> web.Response:
        """Serve the page to whoever knows its address."""
        own = f"{_PAGE}{self._page_token}/"
        known = hmac.compare_digest(request.path.encode("utf-8", "replace"), own.encode())
        if request.method != "GET" or not known:
            return web.Response(status=404, text="The address of the page is printed at the start.")
        return render_page(self.records, self.upstream)

    async def _answered(self, request: web.Request, face: Face) -> web.StreamResponse:
        asked = face.parse(await request.read())
        if asked.data and passes(asked.body):
            return await self._passed(request, "/chat/completions")
        visit = Visit(self._parts, request, face, asked)
        return await (visit.streamed() if asked.stream else visit.plain())

    async def _passed(self, request: web.Request, path: str) -> web.StreamResponse:
        """Hand a request on as it is, and the answer back as it comes."""
        if request.method not in _METHODS:
            return answer(405, _CHAT.error(Failure(405, "this method is not served", "method")))
        if not is_plain_path(path):
            return answer(404, _CHAT.error(Failure(404, "there is nothing here", "not_found")))
        return await Passage(self._parts, request, path).made()

    def _refused(self, status: int, message: str) -> web.Response:
        return answer(status, _CHAT.error(Failure(status, message, "refused")))


def _settings(address: str, *, provider: str = "", **settings: Any) -> ProxySettings:
    """Return how to heal; the provider is the one that the address tells, unless it is named."""
    return ProxySettings(canonical_provider(provider) or provider_of(address), **settings)


def _checked_token(host: str, token: str | None) -> Secret | None:
    if token is not None and not token.strip():
        raise ConfigError("the token is blank")
    if not is_loopback(host) and token is None:
        raise ConfigError(f"{host} is not loopback: the network could use your key; give a token")
    return None if token is None else Secret(token)


def _faces(provider: str) -> dict[str, Face]:
    keeps = provider in _KEEP_CACHE_CONTROL
    return {
        "/chat/completions": _CHAT,
        "/responses": Responses(),
        "/messages": Messages(keeps_cache_control=keeps),
    }
