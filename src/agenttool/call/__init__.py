"""The phases of a call, from its plan to its result. Start with `run`; `call` has the state that the phases share."""
