"""Which cases of a parametrised test `make test` runs."""

import pytest


def one_short(cases):
    """The cases; all but the first are left to `make test-long`."""
    first, *others = cases
    return [
        first,
        *(pytest.param(*(case if isinstance(case, tuple) else [case]), marks=pytest.mark.long) for case in others),
    ]
