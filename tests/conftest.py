"""How the tests draw their examples: the same ones each time, unless random ones are asked for (make test-random)."""

import os

from hypothesis import settings

settings.register_profile("same", derandomize=True, deadline=None, database=None)
settings.register_profile("random", derandomize=False, deadline=None, database=None, print_blob=True)
settings.load_profile(os.environ.get("COMPARO_EXAMPLES", "same"))
