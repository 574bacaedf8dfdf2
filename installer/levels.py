"""What has to be installed for which command."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Level:
    """One amount of installation; a later one contains the earlier ones."""

    name: str
    extras: tuple[str, ...]
    model_lists: tuple[str, ...]  # requirement files beside this module
    contains: tuple[str, ...]

    @property
    def tests(self) -> bool:
        """Whether the tools that the tests need belong to it."""
        return "dev" in self.extras

    @property
    def project(self) -> str:
        """What pip is asked for, from the checkout's folder."""
        return f".[{','.join(self.extras)}]" if self.extras else "."


RUN = Level("run", (), ("models.txt",), ("run",))
TEST = Level("test", ("dev",), ("models.txt", "test-models.txt"), ("run", "test"))
PEER = Level("peer", ("dev", "peer"), ("models.txt", "test-models.txt"), ("run", "test", "peer"))
