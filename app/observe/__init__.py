"""Seeing the screen: grab it, notice changes, read its text."""

from app.observe.observer import Frame, Observer
from app.observe.ocr import Line, Reader, Reading

__all__ = ["Frame", "Line", "Observer", "Reader", "Reading"]
