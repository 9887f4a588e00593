"""Every exception that a caller may want to catch."""

from __future__ import annotations


class ComparisonsError(ValueError):
    """Input that cannot be used; the message names the place and the remedy."""


class JudgeError(RuntimeError):
    """The judge cannot go on at all: a wrong key, an unknown model, a server without what is needed.

    Its message says what to do. A single answer that failed is no JudgeError: it is a `Judgement` with an error.
    """


class RunError(RuntimeError):
    """A run that cannot go on; what was judged is kept, and the same command goes on from there."""


class StoreError(RuntimeError):
    """A run folder that cannot be used: in use, of another run, damaged, full, or not to be written to."""


class WrongFolderError(StoreError, ValueError):
    """A folder that is not the one to name: no run's, or another run's. It stays as it is."""
