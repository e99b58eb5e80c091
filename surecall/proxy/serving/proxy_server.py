"""The proxy server: one address for agents, in front of one upstream.

    POST /v1/chat/completions    OpenAI's Chat Completions API
    POST /v1/responses           OpenAI's Responses API
    POST /v1/messages            Anthropic's Messages API, and /v1/messages/count_tokens
    any other path under /v1     passed through
    GET  /surecall/<token>/      a page with recent requests

    async with Proxy("https://openrouter.ai/api") as proxy:
        client = openai.AsyncOpenAI(base_url=f"{proxy.url}/v1")

Access is checked before a request is read. The upstream is fixed when the proxy starts.
"""

import base64
import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar, Final

import jinja2
from aiohttp import web

from surecall.proxy.repair.proxy_settings import ProxySettings
from surecall.proxy.repair.repaired_reply import is_passthrough
from surecall.proxy.repair.request_history import TurnMemory
from surecall.proxy.serving.request_handler import (
    NO_RETRY,
    Passthrough,
    ProxyContext,
    RequestHandler,
    client_key,
    is_plain_path,
    json_response,
)
from surecall.proxy.serving.request_records import Record, RequestLog
from surecall.proxy.serving.upstream import Upstream
from surecall.runtime.http_server import NO_FRAMES_POLICY, HttpServer, page_headers
from surecall.runtime.loopback_server import BODY_S, HEAD_S
from surecall.settings.capabilities import canonical_provider, provider_for_url
from surecall.settings.connection import (
    AUTO_API,
    DEFAULT_LIMITS,
    LOOPBACK,
    MESSAGES_API,
    Limits,
    RetryPolicy,
    is_loopback,
)
from surecall.values.errors import ConfigError
from surecall.values.types import Secret
from surecall.wire.apis.adapter import ApiAdapter, ErrorReply, InvalidRequest
from surecall.wire.apis.chat_api import ChatApi
from surecall.wire.apis.messages_api import MessagesApi
from surecall.wire.apis.responses_api import ResponsesApi

# The page with recent requests. Its address contains a secret token.
#
# It has no script, escapes everything from outside, and reloads every few seconds.

_ASSETS: Final = files(__package__) / "assets"


@cache
def _page_css() -> str:
    return (_ASSETS / "page.css").read_text("utf-8")


@cache
def _page_template() -> jinja2.Template:
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    environment.filters["clock"] = lambda at: time.strftime("%H:%M:%S", time.localtime(at))
    return environment.from_string((_ASSETS / "page.html").read_text("utf-8"))


def render_page(records: RequestLog, upstream: str) -> web.Response:
    """Render the page with the current records."""
    digest = base64.b64encode(hashlib.sha256(_page_css().encode()).digest()).decode()
    policy = f"style-src 'sha256-{digest}'; {NO_FRAMES_POLICY}"
    text = _page_template().render(
        records=list(records), upstream=upstream, style=_page_css(), count=records.count
    )
    return web.Response(text=text, content_type="text/html", headers=page_headers(policy))


MAX_REQUEST_BYTES: Final = 32 * 1024 * 1024
KEEP_ALIVE_S: Final = 5.0
_TOKEN_BYTES: Final = 18
_API_PREFIX: Final = "/v1"
_PAGE_PATH: Final = "/surecall/"
_COUNT_TOKENS_PATH: Final = "/messages/count_tokens"
_METHODS: Final = frozenset({"GET", "POST", "DELETE"})
# Providers that accept `cache_control` in message parts.
_CACHE_CONTROL_PROVIDERS: Final = frozenset({"anthropic", "openrouter"})
_CHAT: Final = ChatApi()


class Proxy(HttpServer):
    """A proxy for one upstream, in the running event loop or in its own thread.

    `upstream` is the address of an OpenAI-compatible endpoint, and `api` its API, as for
    `OpenAICompatible`; clients may use another one. `api_key` is the key to send there; without
    one, the proxy forwards each client's key. `token` is a key that clients must send to the proxy
    instead; it is required unless `host` is loopback. `settings` are the fields of
    `ProxySettings`: `provider`, `presets`, `repair`, `guards`, `stream`, and `max_tools`.
    """

    max_request_bytes = MAX_REQUEST_BYTES
    options: ClassVar = {"handler_cancellation": True}

    def __init__(  # noqa: PLR0913  # settings, all by keyword
        self,
        upstream: str,
        *,
        api: str = AUTO_API,
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
        super().__init__(host, port, head_s=head_s, body_s=body_s)
        self.page = ""
        self.records = RequestLog(watch)
        self._upstream = Upstream(upstream, api_key, api=api, limits=limits)
        self._context = ProxyContext(
            self._upstream,
            _build_settings(self._upstream.base_url, **settings),
            TurnMemory(),
            self.records,
            retry or RetryPolicy(),
            keep_alive_s,
            None if trace_dir is None else Path(trace_dir),
            _require_token(host, token),
        )
        self._page_token = secrets.token_urlsafe(_TOKEN_BYTES)
        self._adapters = _build_adapters(self._context.settings.provider, self._upstream.usual_api)

    @property
    def upstream(self) -> str:
        """The upstream's address, without its query."""
        return self._upstream.base_url

    async def start(self) -> None:
        """Start listening, in the running event loop."""
        if self._context.trace_dir is not None:
            self._context.trace_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        await super().start()
        await self._upstream.__aenter__()
        self.page = f"{self.url}{_PAGE_PATH}{self._page_token}/"

    async def stop(self) -> None:
        """Stop listening, and close all connections to clients and the upstream."""
        await super().stop()
        await self._upstream.__aexit__()

    def _add_routes(self, app: web.Application) -> None:
        app.router.add_route("*", "/{tail:.*}", self._handle)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        path = request.raw_path.partition("?")[0]
        if path.startswith(_PAGE_PATH):
            return self._serve_page(request)
        while path == _API_PREFIX or path.startswith(f"{_API_PREFIX}/"):
            path = path.removeprefix(_API_PREFIX)
        adapter = self._adapters.get(path.removesuffix("/count_tokens"), _CHAT)
        if (failure := self._access_error(request)) is not None:
            return json_response(failure.status, adapter.render_error(failure), NO_RETRY)
        try:
            if request.method == "POST" and path == _COUNT_TOKENS_PATH:
                return json_response(200, MessagesApi().count_tokens(await request.read()))
            if request.method == "POST" and path in self._adapters:
                return await self._serve_api(request, adapter)
            return await self._pass_through(request, path)
        except InvalidRequest as refused:
            failure = ErrorReply(refused.status, refused.message, "invalid_request", refused.param)
            return json_response(refused.status, adapter.render_error(failure), NO_RETRY)

    def _access_error(self, request: web.Request) -> ErrorReply | None:
        """Return why a request is rejected, before its body is read; None if it is allowed."""
        if request.headers.get("Sec-Fetch-Mode") == "navigate":
            message = "a browser may only open the page with recent requests"
            return ErrorReply(403, message, "refused")
        if not self._is_allowed(request):
            message = "this proxy requires its token: send it as the API key"
            return ErrorReply(401, message, "invalid_api_key")
        return None

    def _is_allowed(self, request: web.Request) -> bool:
        token = self._context.token
        if token is None:
            return True
        shown = client_key(request.headers).encode("utf-8", "surrogateescape")
        return hmac.compare_digest(shown, token.reveal().encode())

    def _serve_page(self, request: web.Request) -> web.Response:
        """Serve the page if the address has its token."""
        own = f"{_PAGE_PATH}{self._page_token}/"
        is_own = hmac.compare_digest(request.path.encode("utf-8", "replace"), own.encode())
        if request.method != "GET" or not is_own:
            message = "No such page. `surecall proxy` prints the page's address when it starts."
            return web.Response(status=404, text=message)
        return render_page(self.records, self.upstream)

    async def _serve_api(self, request: web.Request, adapter: ApiAdapter) -> web.StreamResponse:
        client_request = adapter.parse(await request.read())
        if client_request.client_bytes and is_passthrough(client_request.body):
            return await self._pass_through(request, "/chat/completions")
        handler = RequestHandler(self._context, request, adapter, client_request)
        return await (handler.respond_stream() if client_request.stream else handler.respond())

    async def _pass_through(self, request: web.Request, path: str) -> web.StreamResponse:
        """Forward a request unchanged, and stream the response."""
        if request.method not in _METHODS:
            message = f"method {request.method} is not supported"
            return json_response(405, _CHAT.render_error(ErrorReply(405, message, "method")))
        if not is_plain_path(path):
            return json_response(
                404, _CHAT.render_error(ErrorReply(404, "no such path", "not_found"))
            )
        return await Passthrough(self._context, request, path).respond()

    def _refusal(self, status: int, message: str) -> web.Response:
        return json_response(status, _CHAT.render_error(ErrorReply(status, message, "refused")))


def _build_settings(address: str, *, provider: str = "", **settings: Any) -> ProxySettings:
    """Return the settings; by default, the provider is inferred from the address."""
    return ProxySettings(canonical_provider(provider) or provider_for_url(address), **settings)


def _require_token(host: str, token: str | None) -> Secret | None:
    if token is not None and not token.strip():
        raise ConfigError("the token is blank: pass a secret of your choice")
    if not is_loopback(host) and token is None:
        raise ConfigError(
            f"{host} is not loopback, so anyone on the network could use your key: pass a token"
        )
    return None if token is None else Secret(token)


def _build_adapters(provider: str, upstream_api: str) -> dict[str, ApiAdapter]:
    is_same = upstream_api == MESSAGES_API
    keeps = is_same or provider in _CACHE_CONTROL_PROVIDERS
    return {
        "/chat/completions": _CHAT,
        "/responses": ResponsesApi(),
        "/messages": MessagesApi(keeps_cache_control=keeps, forwards_options=is_same),
    }
