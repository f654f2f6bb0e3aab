"""Functions that build the parts of a runtime from options and settings."""

from agenttool.adapters.python.source import Tool, declared
from agenttool.assemble.settings import kept_at

__all__ = ["Tool", "declared", "kept_at"]
