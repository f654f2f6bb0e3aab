"""What exists, and who may see it."""
