"""Entry point of the `weft` command and of `python -m weft`."""

import signal


def main() -> None:
    """Run the command line and exit with its code."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # Nothing handles KeyboardInterrupt during the imports below; Ctrl-C would print a traceback.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from weft.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
