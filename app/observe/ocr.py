"""Reading a frame's text: PP-OCR on onnxruntime, in its own thread, with the models the package carries."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.errors import UserError
from app.observe.capture import Frame, Rectangle
from app.observe.geometry import reading_order, to_screen

if TYPE_CHECKING:
    from PIL import Image

    Engine = Callable[..., Any]

# Text is found in a picture of half the size: on 1920x1080 with 14-pixel text every line is still found,
# in much less time. Its letters are then read from the full picture.
SHRINK, SMALLEST = 2, 960
LARGEST = 1 << 14  # pixels on a side; nothing is shrunk before it is read
ALIGN = 32  # the finder works in steps of this many pixels


@dataclass(frozen=True, slots=True)
class Line:
    """A line of text and its box (left, top, width, height) in screen pixels."""

    text: str
    box: Rectangle


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read, in reading order."""

    lines: tuple[Line, ...]
    source: str = ""  # "Screen 1, 1920x1080"

    @property
    def plain(self) -> str:
        """The text alone, a line each."""
        return "\n".join(line.text for line in self.lines)

    @property
    def text(self) -> str:
        """A line each, with its middle on the screen: `[x,y] text`."""
        return "\n".join(positioned(line) for line in self.lines)

    @property
    def words(self) -> int:
        """How many words were read."""
        return len(self.plain.split())


def positioned(line: Line) -> str:
    """`[x,y] text`, where x and y are the middle of the line on the screen."""
    left, top, width, height = line.box
    return f"[{left + width // 2},{top + height // 2}] {line.text}"


class Reader:
    """Reads one frame after the other; the models are loaded with the first one."""

    def __init__(self, threads: int | None = None) -> None:
        self._threads = threads
        self._worker = ThreadPoolExecutor(1, "ocr")
        self._engine: Engine | None = None
        self._side = 0

    async def read(self, frame: Frame) -> Reading:
        """The text of a frame; raises UserError if the reader can't be started."""
        return await asyncio.get_running_loop().run_in_executor(self._worker, self._read, frame)

    async def close(self) -> None:
        """Give the worker thread back; what is being read is not waited for."""
        self._worker.shutdown(wait=False, cancel_futures=True)

    def _read(self, frame: Frame) -> Reading:
        side = finder_side(*frame.image.size)
        if self._engine is None or side != self._side:
            self._engine, self._side = _engine(side, self._threads or physical_cores()), side
        found = self._engine(_pixels(frame.image))
        if found.boxes is None or found.txts is None:
            return Reading((), frame.monitor)
        lines = [Line(text, to_screen(frame, box)) for text, box in zip(found.txts, found.boxes, strict=True)]
        order = reading_order([line.box for line in lines])
        return Reading(tuple(lines[index] for index in order), frame.monitor)


def finder_side(width: int, height: int) -> int:
    """The longer side, in pixels, of the picture in which text is looked for."""
    longer = max(width, height)
    return min(longer, max(SMALLEST, longer // SHRINK)) // ALIGN * ALIGN or ALIGN


def physical_cores() -> int:
    """How many cores there are; a second thread on one gains nothing here."""
    import psutil

    return psutil.cpu_count(logical=False) or 1


def _pixels(image: Image.Image) -> Any:
    import numpy

    return numpy.asarray(image)[:, :, ::-1]  # blue first


def _engine(side: int, threads: int) -> Engine:
    """The OCR engine. Paths are given outright, so that it never looks for a model elsewhere."""
    import rapidocr

    folder = Path(rapidocr.__file__).parent / "models"
    return rapidocr.RapidOCR(
        params={
            "Global.use_cls": False,
            "Global.log_level": "error",
            "Global.max_side_len": LARGEST,
            "Det.model_path": _model(folder, "det"),
            "Det.limit_type": "max",
            "Det.limit_side_len": side,
            "Rec.model_path": _model(folder, "rec"),
            "EngineConfig.onnxruntime.intra_op_num_threads": threads,
            "EngineConfig.onnxruntime.inter_op_num_threads": 1,
        }
    )


def _model(folder: Path, part: str) -> str:
    found = sorted(folder.glob(f"*_{part}_*.onnx"))
    if not found:
        raise UserError("The part that reads the screen is not installed whole. Install Sidelight again.")
    return str(found[-1])
