"""A provider that misbehaves on purpose: faults, personas, strict checks, and the server."""
