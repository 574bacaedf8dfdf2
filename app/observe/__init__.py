"""Seeing the screen: grab it, notice changes, read its text; and opening picture files."""

from app.observe.capture import Frame, Rectangle
from app.observe.image import open_image
from app.observe.observer import Observer
from app.observe.ocr import Line, Reader, Reading

__all__ = ["Frame", "Line", "Observer", "Reader", "Reading", "Rectangle", "open_image"]
