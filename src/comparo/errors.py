"""Every exception that a caller may want to catch, and the remedy for a missing library."""


def pip_install(extra: str) -> str:
    """The pip command that installs an extra; it needs the checkout because comparo is not on PyPI.

    >>> pip_install("vote")
    "pip install '.[vote]' in the checkout of comparo"
    """
    return f"pip install '.[{extra}]' in the checkout of comparo"


class ComparoError(Exception):
    """The base class of every error that comparo raises on purpose; invalid arguments raise a ValueError."""


class ComparisonsError(ComparoError, ValueError):
    """Invalid input; the message states where the problem is and how to solve it."""


class JudgeError(ComparoError, RuntimeError):
    """The judge cannot answer at all: a wrong key, an unknown model, a server without a required feature.

    The message states what to do. A single answer that failed does not raise this: it is a `Judgement` with an error.
    """


class RunError(ComparoError, RuntimeError):
    """A run that cannot continue; all answers so far are kept, and the same command continues from there."""


class PendingError(RunError):
    """A batch that is not answered yet; the same command continues it."""


class StoreError(ComparoError, RuntimeError):
    """A run folder that cannot be used: in use, of another run, damaged, on a full disk, or not writable."""


class WrongFolderError(StoreError, ValueError):
    """A folder that holds no run, or another run; it is not changed."""
