"""The proxy: the same healing for agents that are already written, by changing one address."""

from surecall.proxy.serving.record import Record
from surecall.proxy.serving.server import Proxy

__all__ = ["Proxy", "Record"]
