"""The project itself: architecture, documents, promises, types."""
