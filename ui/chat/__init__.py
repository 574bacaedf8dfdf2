"""The chat itself: what was said, and where one writes."""
