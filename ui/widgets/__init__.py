"""Small parts of a window that know nothing of the assistant."""
