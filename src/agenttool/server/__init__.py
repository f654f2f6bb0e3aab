"""The HTTP API of a runtime."""
