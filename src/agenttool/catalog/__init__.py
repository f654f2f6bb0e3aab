"""The declared tools, and which of them a surface shows."""
