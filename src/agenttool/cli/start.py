"""The very start: until there is something to say, Ctrl-C ends the program without a word."""

import signal


def main() -> None:
    """Load the command line, which takes a moment, and run it."""
    interrupt = signal.getsignal(signal.SIGINT)
    if interrupt is signal.default_int_handler:  # else somebody decided otherwise, such as `nohup`
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from agenttool.cli.main import main as run  # noqa: PLC0415 -- this is what takes the moment

    signal.signal(signal.SIGINT, interrupt)
    run()
