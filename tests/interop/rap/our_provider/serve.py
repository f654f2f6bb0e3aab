"""Serve the greenhouse on loopback: `python serve.py PORT`, where 0 lets the system choose; the port is printed."""

import json
import socket
import sys

import uvicorn
from greenhouse import provider

with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as listener:
    print(json.dumps({"port": listener.getsockname()[1]}), flush=True)
    config = uvicorn.Config(provider, log_level="warning")
    uvicorn.Server(config).run(sockets=[listener])
