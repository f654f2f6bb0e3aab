"""Scheduling: who may run now, in which order that is told, and how a call is stopped."""
