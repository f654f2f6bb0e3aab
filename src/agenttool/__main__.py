"""`python -m agenttool`."""

from agenttool.cli.main import main

main()
