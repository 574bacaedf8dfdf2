"""Makes every service once, in order, and closes them in reverse."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app import log, tools
from app.agent.loop import Agent
from app.agent.turn import Choices, Offer, Parts
from app.backends import Backend
from app.backends.local import LocalBackend
from app.errors import UserError
from app.library.found import default_model
from app.observe import Observer, Reader
from app.paths import Paths, find
from app.permissions.audit import Audit
from app.permissions.gate import Gate
from app.permissions.grants import Grants
from app.session import Assistant
from app.settings import Settings
from app.store.conversations import Conversations
from app.store.database import Database
from engine import Sampling

MONITOR = "screen.monitor"
SAMPLING = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty")
OFFERS: dict[str, Offer] = {"auto": "auto", "always": "always", "never": "never"}


@dataclass
class Services:
    """Everything a window or a command line needs. `notices` are sentences to show once at the start."""

    settings: Settings
    assistant: Assistant
    observer: Observer
    grants: Grants
    audit: Audit
    paths: Paths
    reader: Reader
    database: Database
    log: logging.Handler | None
    notices: list[str] = field(default_factory=list)

    async def close(self) -> None:
        """Stop what runs, save, and give everything back."""
        await self.assistant.close()
        await self.assistant.backend.close()
        await self.reader.close()
        await self.observer.close()
        self.database.close()
        log.stop(self.log)


def build(
    paths: Paths | None = None,
    *,
    backend: Backend | None = None,
    model: Path | None = None,
    reply: int | None = None,
) -> Services:
    """All services, quickly: the model is loaded when it is first needed. Raises UserError.

    `model` and `reply` (the longest answer, in tokens) go before what the settings say.
    """
    places = paths or find()
    handler = log.start(places.log)
    try:
        settings = Settings(places.settings)
        choose = chooser(settings, places, reply)
        return _build(places, handler, settings, choose, backend or local(settings, model))
    except UserError:
        log.stop(handler)
        raise


def _build(
    places: Paths,
    handler: logging.Handler | None,
    settings: Settings,
    choose: Callable[[], Choices],
    backend: Backend,
) -> Services:
    database = Database(places.database)
    store = Conversations(database)
    grants, audit = Grants(places.grants), Audit(places.audit)
    observer, reader = Observer(settings.whole(MONITOR) or None), Reader()
    settings.on_change(lambda *_: observer.choose(settings.whole(MONITOR) or None))
    found = tools.find()
    agent = Agent(backend, Gate(found, grants, audit), found)
    assistant = Assistant(Parts(backend, store, agent, observer, reader), choose)
    notices = [*settings.notices, *database.notices, *([grants.notice] if grants.notice else [])]
    return Services(settings, assistant, observer, grants, audit, places, reader, database, handler, notices)


def local(settings: Settings, model: Path | None) -> LocalBackend:
    """The engine, with the person's model, or `model`."""
    return LocalBackend(
        lambda: model or default_model(settings.text("model.path")),
        context=settings.whole("model.context"),
        threads=settings.whole("model.threads"),
    )


def chooser(settings: Settings, places: Paths, reply: int | None = None) -> Callable[[], Choices]:
    """What a turn takes from the settings, read anew for each."""

    def sampling(name: str) -> Any:
        return settings.get(f"sampling.{name}")

    def choose() -> Choices:
        folder = settings.text("folder")
        return Choices(
            instructions=settings.text("model.instructions"),
            sampling=Sampling(**{name: sampling(name) for name in SAMPLING}),
            chosen={name: sampling(name) for name in SAMPLING if settings.is_set(f"sampling.{name}")},
            reply=reply or settings.whole("model.reply"),
            offer=OFFERS[settings.text("tools.offer")],
            folder=Path(folder).expanduser() if folder else places.folder,
            private=(places.config, places.data, places.state, places.cache),
        )

    return choose
