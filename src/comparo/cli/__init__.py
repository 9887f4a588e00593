"""The command line: parse, call, print. A file for each command."""

import sys


def main() -> None:
    """Run the command; an interrupt while it is imported ends it without a traceback."""
    try:
        from comparo.cli.app import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    run()
