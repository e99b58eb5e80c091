"""Runs as OpenTelemetry traces: `pip install 'surecall[otel]'`.

from surecall.otel import OpenTelemetry

runner = ToolLoopRunner(client=…, model=…, tools=[…], observers=[OpenTelemetry()])
"""

from surecall.values.errors import ConfigError

try:
    from surecall.otel.observer import SCHEMA_URL, OpenTelemetry
except ModuleNotFoundError as missing:
    raise ConfigError(
        "surecall.otel needs the OpenTelemetry API: pip install 'surecall[otel]'"
    ) from missing

__all__ = ["SCHEMA_URL", "OpenTelemetry"]
