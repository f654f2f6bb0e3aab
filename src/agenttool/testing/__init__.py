"""Test support for authors of adapters and stores: fakes, contracts and strategies."""
