"""Sentence-embedding models in a local folder; nothing is ever downloaded."""
