"""`python -m rltui` is the `rltui` command."""

import sys

from rltui.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
