"""The proxy server: the only part of the proxy with I/O."""
