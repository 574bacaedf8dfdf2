"""Errors whose text is a sentence for the person."""


class UserError(Exception):
    """Something the person can understand and act on; shown as it is, without a traceback."""
