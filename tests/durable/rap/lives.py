"""A program in many lives: `lives.py PROGRAM WORD…` forks a child for each line it reads, and prints its process.

The parent has everything imported, so that a life is short. A child is the program's `live`, with the words of the
command line and those of the line; whatever it prints comes after the parent's own line.
"""

import os
import random
import signal
import sys
from importlib.util import module_from_spec, spec_from_file_location

from agenttool.http import client as http_client


def main(program, *words):
    spec = spec_from_file_location("program", program)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    sys.stdout.reconfigure(write_through=False)  # a line at a time, also if unbuffered: two processes write here
    http_client.tls_context()
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            random.seed()
            os.close(0)
            module.live(*words, *line.split())
            os._exit(1)
        print("life", child, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
