"""The window: shows the assistant and asks the person."""
