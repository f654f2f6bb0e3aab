"""Permissions: rules, what they match, what is decided, and who is asked."""
