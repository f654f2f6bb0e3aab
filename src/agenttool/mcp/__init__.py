"""A runtime as an MCP server: its tools over stdio and streamable HTTP. Needs the extra `agenttool[mcp]`."""

from importlib.util import find_spec

from agenttool.errors import ConfigError

if find_spec("mcp") is None:
    raise ConfigError("the MCP server needs the package mcp; install it with: pip install 'agenttool[mcp]'")
