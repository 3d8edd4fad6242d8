"""`python -m trainer run CONFIG --run-dir DIR`."""

import os
import sys


def _main() -> int:
    """Imports inside: a Ctrl-C while they load, a second or two, ends as one after them does."""
    try:
        from trainer.run import main, parse

        return main(parse())
    except KeyboardInterrupt:
        print("interrupted before the run began", file=sys.stderr, flush=True)
        # Not by way of the interpreter, which ends by SIGINT itself if the interrupt met it inside an exec().
        os._exit(130)


if __name__ == "__main__":
    sys.exit(_main())
