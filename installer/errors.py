"""What the installer can fail with."""

from __future__ import annotations


class SetupError(Exception):
    """Setting up cannot go on; the text is for the person in front of the screen."""
