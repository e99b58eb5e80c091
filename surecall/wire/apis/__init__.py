"""The APIs that clients use. Each adapter parses requests and renders replies, without I/O."""
