"""`python -m trainer run CONFIG --run-dir DIR`."""

import sys

from trainer.run import main, parse

if __name__ == "__main__":
    sys.exit(main(parse()))
