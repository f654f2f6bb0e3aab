"""One `agenttool serve` with a short lease: `gateway.py LEASE_S OPTION...`."""

import sys
from functools import partial

from agenttool.cli.main import main
from agenttool.durable import recovery
from agenttool.runtime import Runtime

if __name__ == "__main__":
    Runtime.open = partial(Runtime.open, lease_s=float(sys.argv[1]))
    recovery.RECOVER_EVERY_S = 0.3
    sys.argv = ["agenttool", "serve", *sys.argv[2:]]
    main()
