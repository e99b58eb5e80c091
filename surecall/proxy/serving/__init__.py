"""The server: the only part of the proxy that waits."""
