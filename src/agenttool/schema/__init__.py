"""JSON Schema: a thin room over a validator that never fetches anything."""
