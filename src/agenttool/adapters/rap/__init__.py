"""The Reactive Agent Protocol (RAP): the client side, and what the provider side shares with it."""
