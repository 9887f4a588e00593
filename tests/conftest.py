"""How the tests draw their examples: the same ones each time, unless random ones are asked for (make test-random)."""

import logging
import os
import subprocess
import sys

import pytest
from hypothesis import settings

from comparo.cli.app import main

settings.register_profile("same", derandomize=True, deadline=None, database=None)
settings.register_profile("random", derandomize=False, deadline=None, database=None, print_blob=True)
settings.load_profile(os.environ.get("COMPARO_EXAMPLES", "same"))


@pytest.fixture
def run(monkeypatch, capfd):
    """What runs the command in this process, which takes a tenth of the time."""
    for name in [name for name in os.environ if name.startswith(("COMPARO_", "OPENAI_"))]:
        monkeypatch.delenv(name)

    def start(folder, arguments):
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "argv", ["comparo", *map(str, arguments)])
        monkeypatch.setattr(logging.getLogger(), "handlers", [])
        code = 0
        try:
            main()
        except SystemExit as end:
            code = end.code
        said = capfd.readouterr()
        return subprocess.CompletedProcess(arguments, code, said.out, said.err)

    return start
