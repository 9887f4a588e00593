"""What tests use of comparo beside its public names, for set-up: a move within comparo changes this file alone."""

from comparo.data.criteria_prompt import criteria_prompt
from comparo.data.formats import csv_text
from comparo.data.prompts import Rest, criterion_prompt
from comparo.data.run_folder import key_of
from comparo.data.wordings import DEFAULT_WORDING, WORDINGS
from comparo.judges.chat import Chat
from comparo.judges.labels import TextSpellings, label_probability
from comparo.judges.prices import Price
from comparo.judges.simulated import Simulated
from comparo.log.folders import list_runs
from comparo.log.repair import repair
from comparo.log.store import (
    Store,
    count_judgements,
    read_configuration,
    read_judgements,
    stored_items,
)
from comparo.methods import METHODS, quiet_fit
from comparo.model.design import Design, Shared
from comparo.model.estimators.mixed import mixed
from comparo.model.estimators.poe import multiply
from comparo.model.inference.choices import Choices
from comparo.model.likelihoods.bradley_terry import BradleyTerry
from comparo.model.likelihoods.gaussian import Constant, Linear
from comparo.model.linalg.graph import Graph, Pattern
from comparo.model.linalg.spectrum import Spectrum, System
from comparo.model.posterior import Posterior
from comparo.model.tuning import LIMITS, Limits
from comparo.options import Storage
from comparo.ranking.consensus import consensus
from comparo.ranking.scores import nodes_of
from comparo.ranking.self_consistency import count_flips
from comparo.report.page import render
from comparo.report.record import read_record
from comparo.run.budget import Budget
from comparo.run.fit_policy import Fitting
from comparo.run.loop import Run
from comparo.run.plan import prepare
from comparo.run.rank import prepare_rank
from comparo.run.task import Task
from comparo.run.voices import voices_of
from comparo.selection.sharing import next_pairs

__all__ = [
    "DEFAULT_WORDING",
    "LIMITS",
    "METHODS",
    "WORDINGS",
    "BradleyTerry",
    "Budget",
    "Chat",
    "Choices",
    "Constant",
    "Design",
    "Fitting",
    "Graph",
    "Limits",
    "Linear",
    "Pattern",
    "Posterior",
    "Price",
    "Rest",
    "Run",
    "Shared",
    "Simulated",
    "Spectrum",
    "Storage",
    "Store",
    "System",
    "Task",
    "TextSpellings",
    "consensus",
    "count_flips",
    "count_judgements",
    "criteria_prompt",
    "criterion_prompt",
    "csv_text",
    "key_of",
    "label_probability",
    "list_runs",
    "mixed",
    "multiply",
    "next_pairs",
    "nodes_of",
    "prepare",
    "prepare_rank",
    "quiet_fit",
    "read_configuration",
    "read_judgements",
    "read_record",
    "render",
    "repair",
    "stored_items",
    "voices_of",
]
