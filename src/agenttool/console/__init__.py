"""The web console: static files that use the public HTTP API only."""
