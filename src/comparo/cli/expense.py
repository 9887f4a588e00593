"""What a run would take, and its first question as it is sent: what --dry-run shows."""

import math
from pathlib import Path

from comparo.cli.criteria import first_criteria
from comparo.cli.printing import Console
from comparo.data.injection import injection_sentence
from comparo.data.joint import CriteriaPrompt
from comparo.data.prompts import Question
from comparo.run.audition import Trial
from comparo.run.budget import dollars
from comparo.run.first import first_question
from comparo.run.growing import growth_sentence
from comparo.run.probing import price_sentences, remember_probes
from comparo.run.task import Expense, Task
from comparo.run.writing import expense_words, longest_prompt_words

BEGIN = ("local", "hf", "vllm")  # providers whose models always go on with an answer that was begun


def given_words(task: Task) -> str:
    """How many of a run's calls were answered before, to be put after their number."""
    where = "in the audition" if task.growth is None else "before"
    return f", {len(task.given):,} of them answered {where}" if task.given else ""


def say_expense(console: Console, task: Task, expense: Expense, folder: Path | None = None) -> None:
    """Say what a run would take, and its first question; an earlier run may have left a probe in the `folder`."""
    contexts = f" in {len(task.items.contexts)} contexts" if len(task.items.contexts) > 1 else ""
    several = len(task.voices) > 1
    if isinstance(task, Trial) and task.whole:
        console.print(f"At most {task.whole:,} calls in all; the first of them are an audition of the wordings:")
    who = f"{len(task.voices)} voices" if several else f"judge {task.judge.name}"
    console.print(f"{len(task.items):,} items{contexts}, {who}", markup=False)
    if task.compares_groups:
        aim = "find the best of" if task.goal == "best-system" else "tell apart"
        console.print(f"goal {task.goal}: calls to {aim} {task.systems().count} groups, in all contexts together")
    for voice in task.voices if several else ():
        each = expense.costs[voice.name]
        console.print(f"  {voice.name}: {'price not known' if math.isnan(each) else f'{dollars(each)} a call'}")
    if sentence := growth_sentence(task):
        console.print(sentence, markup=False)
    calls = f"{expense.calls:,} calls at most{given_words(task) if task.growth is None else ' now'}"
    remember_probes(task.judges, folder)
    console.print(f"{calls}, {expense_words(task, expense)}", markup=False, soft_wrap=True)
    console.print(longest_prompt_words(task), markup=False, soft_wrap=True)
    if flagged := injection_sentence(task.items, task.prompt):
        console.print(flagged, markup=False, soft_wrap=True)
    for sentence in price_sentences(task.judges):
        console.print(sentence, markup=False, soft_wrap=True)
    question = first_question(task)
    if question is not None:
        sent = written_out(task, question)
        console.print(f"The first question, as it is sent:\n\n{sent}", markup=False, soft_wrap=True)


def written_out(task: Task, question: Question) -> str:
    """A question of a run as it is sent, and how the answer is begun, if it is."""
    voice = next(voice for voice in task.voices if voice.name == question.voice)
    judge, prompt = voice.judge, voice.prompt
    begins, adds = (getattr(judge, name, None) for name in ("begins", "adds"))
    by_itself = isinstance(prompt, CriteriaPrompt) and not adds
    text = first_criteria(prompt, question) if by_itself else prompt.text(question)
    text += adds(prompt) if adds else ""
    is_begun = begins(prompt) if begins else judge.name.partition("/")[0] in BEGIN
    return text + (f"\n\nThe answer is begun with: {prompt.answer}" if is_begun and prompt.answer else "")
