"""The entry point: Ctrl-C while the command line is still loading ends the program without a traceback."""

import signal


def main() -> None:
    """Import the command line, which takes a moment, and run it."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:  # otherwise the parent process chose, as `nohup` does
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from agenttool.cli.main import main as run  # noqa: PLC0415 -- this is the slow import

    signal.signal(signal.SIGINT, handler)
    run()
