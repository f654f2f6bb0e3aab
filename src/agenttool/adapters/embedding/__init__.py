"""Sentence-embedding models in a local folder. Nothing is downloaded."""
