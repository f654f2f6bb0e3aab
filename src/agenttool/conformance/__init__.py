"""What the standards ask, as data, and how much of it is proved by a passing test."""
