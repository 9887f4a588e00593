"""comparo.rank: the whole job in one call, from texts to a ranking."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from comparo.data.covariates import columns_in
from comparo.data.grammar import AUTO, accepts, part
from comparo.data.items import Items
from comparo.errors import Message, named
from comparo.options import ColumnOptions, RankOptions, Storage, TaskOptions
from comparo.ranking.ranking import Ranking
from comparo.run.audit_card import audited, audited_terms, varying
from comparo.run.audition import AuditionAnswers
from comparo.run.budget import Budget
from comparo.run.criteria import check_criteria
from comparo.run.loop import Experiment, Rank, Run
from comparo.run.pilot import LineupPlan
from comparo.run.plan import Plan, prepare
from comparo.run.resume import items_before
from comparo.run.task import Task
from comparo.run.voices import make_voices
from comparo.selection.designs import SYSTEM_GOALS


@accepts(RankOptions)
def rank(data: Any, options: RankOptions) -> Ranking:
    """Rank texts by a judge, from few comparisons.

    Parameters
    ----------
    data, id, text, context, context_id, group, scores
        Anything that `Items.of` reads: a list of texts, a mapping from id to text, a data frame, a file. The others
        name its columns.
    criterion, kind, wording
        The judge is asked which of two texts is `criterion` ("more coherent"). `kind` is what the texts are called
        ("Summary"); "Summary; heading=Article" also sets the heading of the context, by default the name of its column.
        `wording` is the name of a form of the question, such as "between"; by default the paper's. Several
        criteria by name, {"coherence": "more coherent; weight=2", "fluency": "more fluent"}, are asked in one call
        about each pair (docs/criteria.md), and the result is a `CriteriaRanking`: the overall ranking, with that of
        each criterion. A weight counts in the overall only, so that a finished run is weighed again without calls.
    prompt
        Instead of a criterion: a template with {first} and {second}, a file that holds one, the name of one of the
        paper's prompts, or a `Prompt`, which also has the labels of the texts and how the judge's answer begins.
    judge
        provider/model, also with options, "openai/gpt-6-luna; effort=low" (`load_judge`), any object with the protocol
        of a judge, or a function of two texts that returns P(the first is better). With a list of judges, or of
        wordings, every judge with every wording is a voice: the ranking is the consensus of all voices, and the calls
        go to the most informative ones for their price.
    budget, until, goal
        A number of calls, "10n" calls per item, "5%" of all ordered pairs, or "$2.50". `until` stops earlier, once the
        expected Spearman correlation with the true ranking (for the goal "top-5": the expected share of the best
        five that are right) reaches it. The goals "systems" and "best-system" are about groups of texts in all contexts
        together: to separate them (`until`: the expected correlation of their order), or to find the best (`until`: the
        probability that it is).
    strategy, orders, plain, seed
        How pairs are chosen. A plain run follows the paper: the choice of pairs and the scores ignore the texts, and
        the default method is "poe-bt; bias=joint".
    method
        How comparisons become scores. Default: that of `fit`, "panel" where several voices gave enough answers, else
        "mixed"; another bias (`fit`) is named as in "mixed; bias=none". Both also use the texts: comparisons of similar
        texts count less, and texts of the same group or of similar style inform each other. Every other method is that
        of `fit`, with its default bias: the scores are those of `fit(out, method)`. In a plain run "mixed" and "panel"
        are those of `fit` too.
    estimate
        Whose ranking it is: "judge", or "consensus", an estimate of what people would say. "auto" is a
        consensus where texts share groups (a column group, or the same ids in several contexts), else the judge's. A
        number is the validity of a consensus: the share of the judge's view of single texts that people share, which
        is estimated by default.
    control
        What `Ranking.controlled` controls for: "length", or the names of columns of numbers (docs/control.md).
    first_stage
        The name of a column of numbers with which scores rise or fall, such as those of a search engine: their slope,
        which may be negative, is estimated from the answers. It also chooses line-ups for the goal "top-5"
        (docs/top.md).
    lineup
        How many texts one call is about, 2 to 8 (docs/lineups.md): calls about four to six texts give more information
        per token than pairs. "auto" asks a few texts in pairs and in line-ups first, and takes the largest line-up with
        at least half of the best information per token.
    least_mass
        The run stops early if the judge's first answers put less than this share of its probability on the labels.
    audition
        What `audition` returned for these texts, or its folder. The answers of those voices that this run has too (the
        same judge with the same options, criterion and wording) count within the budget, in calls and dollars, and are
        not asked again.
    votes
        Comparisons by people about some of the texts, in any form that `Comparisons.of` reads, such as the folder of a
        vote. The ranking is then what people would say (`with_votes`); no call depends on them.
    out
        A folder in which everything asked is stored; a call that was stopped continues there. Items that the run of the
        folder does not have are added to it, and the budget is then for them (docs/runs.md). A `Storage`
        (`comparo.options`) has more: with `fresh`, an existing folder is renamed first; with `batch`, the
        questions go to the server as a batch, which costs half and may take a day (docs/batch.md). "wait" waits for it;
        "submit" raises a PendingError where it is not answered yet, and the same call goes on later; "cancel" ends it
        early. Its `link` is the folder of another run by the same judge and criterion, which is only read: all texts of
        both are ranked on its scale, with the error of the link in every interval. The budget is for the new ones and
        for pairs with texts of that run, which are chosen as for texts that are added to it (docs/grades.md).
    cache
        The file of a judgement cache (docs/runs.md): answers that it holds are not asked again, and what is asked is
        kept in it, for every run that names the same file. The ranking is the same as without it. Default:
        comparo-runs/cache.sqlite for a judge that is given by name and a run with `out`, as on the command line; else,
        and with "off", none.
    watch
        Called with the progress about twice per second and at the end ("bar": a bar of text on stderr, for notebooks
        and terminals). Sentences that the user should read at once are warnings of the logger "comparo".

    Returns
    -------
    Ranking
        A `CriteriaRanking` where there are several criteria.

    Raises
    ------
    ValueError
        Before anything is asked, if the options do not fit together, the budget cannot connect the items, or the
        audition was of other texts or other voices.
    PendingError
        If a batch is not answered yet, or was cancelled.
    JudgeError, RunError, StoreError
        If the judge, the run or the folder cannot continue; all answers so far are stored.

    Examples
    --------
    >>> from comparo.judges import load_judge
    >>> quality = {"ana": 2.0, "bo": 0.0, "cy": -2.0}
    >>> texts = {name: f"A story by {name}." for name in quality}
    >>> rank(texts, "more surprising", judge=load_judge("simulated/soft", scores=quality)).to_columns()["item"].tolist()
    ['ana', 'bo', 'cy']
    """
    return plan_rank(data, options).run(options.watch)


def items_of(data: Any, options: RankOptions) -> Items:
    """The texts to rank, with the columns to control for and the first stage; they may join those of a run."""
    storage, numbers = Storage.of(options.out), dict.fromkeys(columns_in(audited_terms(options.control)), "control")
    if options.first_stage is not None:
        numbers[options.first_stage] = "first_stage"
    old = items_before(storage.out, storage.link, storage.fresh)
    items = Items.of(data, **part(options, ColumnOptions), numbers=numbers, old=old)
    if len({*items.anchors.values(), *(old.anchors.values() if old else ())}) == 1:
        raise ValueError("the column anchor has one score only; give texts of different quality, or drop the column")
    return items


def plan_rank(
    data: Any, options: RankOptions, experiment: Callable[[Run], Experiment[Any]] = Rank
) -> Plan[Any] | LineupPlan:
    """Check the options of `rank`, and return its plan; nothing is asked."""
    items, storage = items_of(data, options), Storage.of(options.out)
    goal, lineup, audition = options.goal, options.lineup, options.audition
    begins = {Message("{lineup:'auto'}"): lineup == AUTO, Message("{audition}"): audition is not None}
    first = [option for option, is_given in begins.items() if is_given]
    clashes = {
        Message("{batch}"): storage.batch is not None and first != [Message("{audition}")],
        Message("{link}"): storage.link is not None,
        named("goal", goal): goal in SYSTEM_GOALS and lineup != AUTO,
    }
    others = first[1:] + [option for option, is_given in clashes.items() if is_given]
    if first and others:
        own = first[0] + " begins with answers of its own, which do not go with " + others[0]
        raise ValueError(own + "; leave " + others[0] + " out")
    voices = make_voices(items, options, () if lineup in (2, AUTO) else (lineup,))
    if found := check_criteria(voices, options):
        storage.notes["weights"] = found
    asked = [(voice.judge.name, voice.prompt.wording) for voice in voices]
    if (known_biases := audited(options.control, asked)) is not None:
        storage.notes["audit"] = known_biases.to_dict()
    task = Task(
        items,
        voices[0].prompt,
        voices[0].judge,
        Budget.of(options.budget),
        panel=voices if len(voices) > 1 else (),
        votes=options.votes,
        **part(options, TaskOptions) | {"control": varying(audited_terms(options.control), items)},
    )
    if lineup == AUTO:
        return LineupPlan(task, storage)
    if audition is not None:
        known = AuditionAnswers.read(audition) if isinstance(audition, str | Path) else audition.answers
        task = replace(task, given=known.given_to(items, voices))
        storage.notes["audition"] = known.taken(task.given)
    return prepare(task, storage, experiment)


prepare_rank = accepts(RankOptions)(plan_rank)
