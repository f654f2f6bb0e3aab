"""The second layer: one small module per question that a schema cannot ask."""
