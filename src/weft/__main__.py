"""The `weft` command, which is also `python -m weft`."""

import signal


def main() -> None:
    """Run the command line and exit with its code."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # In the middle of an import, Ctrl-C would be a traceback: nobody is there yet to make a line of it.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from weft.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
