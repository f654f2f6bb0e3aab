"""The phases of a call, from its plan to its result."""
