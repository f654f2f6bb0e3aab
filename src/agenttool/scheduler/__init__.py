"""Scheduling: concurrency and rate limits, timeouts, cancellation, retries and the order of batches."""
