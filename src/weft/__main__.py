"""Entry point of the `weft` command and of `python -m weft`."""

import gc
import signal

from weft.gc_tuning import GC_THRESHOLD


def main() -> None:
    """Run the command line and exit with its code."""
    gc.set_threshold(GC_THRESHOLD, 10, 10)  # collections during the imports would find nothing
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # Nothing handles KeyboardInterrupt during the imports below; Ctrl-C would print a traceback.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from weft.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
