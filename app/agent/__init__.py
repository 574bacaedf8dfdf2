"""A turn: what the model is given, what it asks for, and what comes of it."""
