"""HTTP for every adapter and server: one guarded client, and the limits on requests that are served."""
