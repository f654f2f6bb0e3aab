"""`python -m agenttool`."""

from agenttool.cli.start import main

main()
