"""`python3 installer/bootstrap.py run` sets Sidelight up in this checkout and starts it; `test` checks it.

This file must parse on old Pythons, so that they can be told what is needed; the rest is in other modules.
"""

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NEEDED = (3, 11)


def main() -> int:
    """Check the Python that runs this, then hand over to the command line."""
    if sys.version_info < NEEDED:
        print(
            "Sidelight needs Python 3.11 or newer; this is Python {}.{}. Install a newer one and use it for "
            "this command, for example: python3.12 installer/bootstrap.py run".format(*sys.version_info[:2]),
            file=sys.stderr,
        )
        return 2
    # Replaces this script's own folder: `installer` is then a package, and its modules hide no others.
    sys.path[0] = ROOT
    from installer.command import main as command

    return command(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
