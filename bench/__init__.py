"""Benchmarks that compare agenttool with other libraries in one run."""
