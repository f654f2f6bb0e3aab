"""One folder per native protocol; no adapter knows another."""
