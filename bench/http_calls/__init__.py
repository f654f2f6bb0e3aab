"""`POST /v1/calls` of an echo tool with a key, beside a bare echo on the same server library, and FastMCP."""

from bench.http_calls.rates import measure

__all__ = ["measure"]
