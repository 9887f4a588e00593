"""The scorer for inspect_ai, in a process of its own: inspect_ai changes asyncio for all that runs beside it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.long
def test_the_scorer_in_real_evaluations():
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "inspect_scorer.py"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        command, cwd=Path(__file__).parent, env=environment, capture_output=True, text=True, encoding="utf-8"
    )
    assert done.returncode == 0, done.stdout + done.stderr
