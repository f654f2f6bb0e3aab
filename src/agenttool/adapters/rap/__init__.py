"""The Reactive Agent Protocol (RAP), as both of its sides need it."""
