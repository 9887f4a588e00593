"""What tests use of comparo beside its public names, for set-up: a move within comparo changes this file alone."""

from comparo.analysis.confidence import expected_spearman, top_probability
from comparo.analysis.correlations import agreement, spearman, spearman_within
from comparo.cli.app import COMMANDS, COMMON, app, load_command, summary
from comparo.cli.printing import Console, print_table, progress_line, watched
from comparo.cli.settings import GUARDED, SPENT, command_line, name_of, options_of
from comparo.data.columns import frame_from_columns
from comparo.data.criteria_prompt import criteria_prompt
from comparo.data.documents import CELL, guarded, unguarded
from comparo.data.formats import CHUNK, csv_text, read_columns, write_columns
from comparo.data.items import read_items
from comparo.data.lineups import CLEAR, soft_rows
from comparo.data.probes import find_injections, injection_sentence
from comparo.data.prompts import Rest, choose_prompt, criterion_prompt, defuse
from comparo.data.run_folder import DATABASE, encode, key_of
from comparo.data.sanitize import DELIMITER, visible
from comparo.data.sheets import read_several, sheet_columns, write_sheets
from comparo.data.text_features import contrasts, styles
from comparo.data.wordings import DEFAULT_WORDING, LETTERS, WORDINGS
from comparo.judges.chat import Chat, Encoded, digest_of
from comparo.judges.labels import TextSpellings, common_prefix, label_probability
from comparo.judges.prices import Price, Usage, find_price
from comparo.judges.protocol import GRACE, Several, about
from comparo.judges.simulated import Simulated
from comparo.judges.verdicts import (
    LONGEST,
    ordering,
    read_logprobs,
    read_order,
    read_verdict,
    reply_schema,
    soften,
    token_positions,
)
from comparo.log.cache import LONGEST_CLAIM, Cache, clear, contents
from comparo.log.cache import SCHEMA as CACHE_SCHEMA
from comparo.log.database import open_database
from comparo.log.folders import choose_folder, list_runs, waiting_for
from comparo.log.repair import PAGE, repair, repair_cache
from comparo.log.store import Store, count_judgements, read_configuration, read_judgements, stored_items
from comparo.methods import METHODS, quiet_fit
from comparo.model.design import Design, Shared
from comparo.model.estimators.mixed import mixed
from comparo.model.estimators.poe import multiply
from comparo.model.inference.choices import Choices
from comparo.model.inference.random_effects import random_effects
from comparo.model.inference.soft import Soft
from comparo.model.likelihoods import Davidson, Gaussian, StudentT
from comparo.model.likelihoods.bradley_terry import BradleyTerry
from comparo.model.likelihoods.gaussian import Constant, Linear
from comparo.model.linalg.graph import Graph, Pattern
from comparo.model.linalg.spectrum import Spectrum, System
from comparo.model.posterior import Posterior
from comparo.model.tuning import FEW, LIMITS, SPREAD, Limits
from comparo.options import Storage
from comparo.ranking.consensus import consensus
from comparo.ranking.criteria_ranking import CriteriaRanking, combine
from comparo.ranking.ranks import components
from comparo.ranking.scores import nodes_of
from comparo.ranking.self_consistency import count_flips
from comparo.report.data import Room
from comparo.report.embed import are_codes, common_length, script_json, size
from comparo.report.making import facts, prompt_of, question
from comparo.report.measures import agreements, bootstrap, length_correlation, outlook, position_bias, who_judged
from comparo.report.page import render
from comparo.report.record import Fitted, fitted_record, read_record
from comparo.run.audition import AuditionAnswers, some_items
from comparo.run.batch import BatchRun, check_batch
from comparo.run.batch_transport import Pauses
from comparo.run.budget import RECENT, Budget, Spending
from comparo.run.cached_judge import CachedJudge, head_of, key_of_answer, remembering
from comparo.run.check import UNFINISHED, check
from comparo.run.fit_policy import Fitting
from comparo.run.linking import link, read_past
from comparo.run.loop import Experiment, Run
from comparo.run.pilot import rate
from comparo.run.plan import prepare
from comparo.run.progress import Bar, Progress
from comparo.run.rank import prepare_rank
from comparo.run.resume import merged
from comparo.run.task import Task
from comparo.run.voices import Voice, model_sentences, voices_of
from comparo.run.why import prepare_why
from comparo.run.worker import CHANCE, FAILED, JudgeThreads, answers_to, is_excess
from comparo.selection.greedy import join
from comparo.selection.growing import Placing
from comparo.selection.lineups import LineupSelector
from comparo.selection.sharing import next_pairs, share_out, telling_pairs
from comparo.selection.systems import Systems, sureness
from comparo.studies.display import correlations_table, retention_table
from comparo.studies.recorded import Opened, Recorded
from comparo.studies.sweep import Fit, Way, evaluate, everything, sweep
from comparo.vote.booth import Booth, opened
from comparo.vote.session import Links, Voting
