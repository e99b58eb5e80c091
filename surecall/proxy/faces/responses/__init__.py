"""The face of OpenAI's Responses API: items in, items or typed events out."""

from surecall.proxy.faces.responses.api import Responses

__all__ = ["Responses"]
