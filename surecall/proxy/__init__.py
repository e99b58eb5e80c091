"""The proxy: repairs tool calls for existing agents, which only change their base URL."""

from surecall.proxy.serving.proxy_server import Proxy
from surecall.proxy.serving.request_records import Record

__all__ = ["Proxy", "Record"]
