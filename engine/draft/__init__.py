"""Proposing tokens for the model to check: how, and how many at a time."""
