"""JSON Schema: validation that never fetches anything, views of schemas, and schemas of Python functions."""
