"""MCP servers as a source of tools: the client side of the Model Context Protocol."""
