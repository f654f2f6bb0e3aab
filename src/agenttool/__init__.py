"""The governed tool layer for AI agents: declare a tool once, run every call through one explained pipeline."""

__version__ = "0.1.0.dev0"
