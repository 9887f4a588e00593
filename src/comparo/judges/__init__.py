"""Judges: from two texts to the probability that the first is better. One file per provider.

A judge is named provider/model, split at the first slash. A provider is a module with a function
`load(model, **options)`; those of other packages are found by the entry point group `comparo.judges`.
"""

from comparo.errors import JudgeError
from comparo.judges.loading import (
    PROVIDERS,
    FunctionJudge,
    accepted_options,
    as_judge,
    load_judge,
    parse_judge,
    parse_options,
)
from comparo.judges.protocol import Judge, Judgement, Probe, Writing
from comparo.judges.ray import ray_judge

__all__ = [
    "PROVIDERS",
    "FunctionJudge",
    "Judge",
    "JudgeError",
    "Judgement",
    "Probe",
    "Writing",
    "accepted_options",
    "as_judge",
    "load_judge",
    "parse_judge",
    "parse_options",
    "ray_judge",
]
