"""The APIs that clients speak. Each is a pure pair: a request is read, an answer is written."""
