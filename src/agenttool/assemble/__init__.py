"""Joins everything: settings and tools in, a runtime out. The only room that knows every other."""

from agenttool.assemble.given import Tool, declared
from agenttool.assemble.runtime import Runtime
from agenttool.assemble.settings import kept_at

__all__ = ["Runtime", "Tool", "declared", "kept_at"]
