"""Blocks that model files are made of; none of them knows an architecture or a file."""
