"""comparo fit: scores and a ranking from recorded comparisons."""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from comparo.analysis.own_family import OwnFamily, families_of, own_family
from comparo.cli.criteria_output import answers_to, check_criterion, criteria_in, print_criteria_fit
from comparo.cli.flags import names_in
from comparo.cli.printing import (
    Format,
    print_board,
    print_columns,
    print_moved,
    print_notes,
    print_ranking,
    print_text,
    say,
)
from comparo.cli.settings import command_line
from comparo.data.columns import as_number, shown
from comparo.data.comparisons import Comparisons
from comparo.data.control_terms import Numbers, columns_in
from comparo.data.documents import table_workbook
from comparo.data.items import Items
from comparo.data.joining import join, read_parts, read_several
from comparo.data.reading import read_columns
from comparo.data.run_folder import database_of
from comparo.data.writing import csv_text
from comparo.methods import Method, quiet_fit
from comparo.model.estimators.bradley_terry import PriorPairs
from comparo.model.estimators.poe import Bias
from comparo.ranking.display import control_sentences, tie_sentences
from comparo.ranking.grades import Grading
from comparo.ranking.grouping import group_codes
from comparo.ranking.leaderboard import Over
from comparo.ranking.powered import Powered, powered
from comparo.ranking.ranking import Ranking
from comparo.ranking.scale import Scaled
from comparo.ranking.tabular import json_rows
from comparo.ranking.votes import rank_votes, shared_ids, with_votes
from comparo.run.audit_card import audited, audited_terms
from comparo.run.fit_policy import Fitting
from comparo.run.linking import link
from comparo.run.store import read_configuration, stored_items

LISTS = (".csv", ".xlsx")  # endings of a class list


def fit_command(
    context: typer.Context,
    files: list[Path],
    method: Method | None = None,
    bias: Bias | None = None,
    prior: str | None = None,
    prior_pairs: PriorPairs = "none",
    voice: list[str] | None = None,
    criterion: str | None = None,
    people: list[str] | None = None,
    control: list[str] | None = None,
    items: Path | None = None,
    is_grouped: Annotated[bool, typer.Option("--groups")] = False,
    votes: list[Path] | None = None,
    leaderboard: bool = False,
    is_powered: Annotated[bool, typer.Option("--powered")] = False,
    family: list[str] | None = None,
    anchors: Path | None = None,
    grades: str | None = None,
    linked_to: Annotated[Path | None, typer.Option("--link")] = None,
    these: bool = False,
    level: float = 0.95,
    top: Annotated[int | None, typer.Option(min=1)] = None,
    output: Annotated[Format, typer.Option("--format")] = "table",
    report: Path | None = None,
) -> None:
    """Scores and a ranking from recorded comparisons.

    Prints, best first: score, its standard error and interval, rank, tier (items that cannot be distinguished share
    one) and how many comparisons the item is in. A panel adds a table of its judges: agreement with the consensus,
    scale, taste, noise and position bias.

    Parameters
    ----------
    files : Comparisons: CSV, TSV, JSONL, JSON, Parquet or .xlsx, also gzipped, or a run folder; several are read as
        one. Columns first, second, p (the probability that the first is better) and, if you have them, weight, context,
        judge; or a column winner in place of p: first, second, A, B, an item's name, or tie; also model_a, model_b,
        winner; or left, right, winner. Rows without a winner were not judged: left out.
    method : How comparisons become scores. poe-bt and poe-g combine the judge's probabilities; bt, poe-g-hard and
        win-ratio use only who won, davidson also who tied; avg-prob is the mean probability. mixed estimates all
        variances from the comparisons, as comparo rank does. panel is the consensus of several judges (column judge),
        and estimates the worth of each. Default: poe-bt, and mixed for several files with several judges; people's
        votes (a folder of comparo vote, decisions in several sheets) are ranked as on the organiser's page.
    bias : A judge may favour what it sees first. joint: estimate by how much, along with the scores, for each context
        and judge. plug-in: from the mean probability. Default: joint for mixed and panel, else none.
    prior : Standard deviation of a Gaussian prior on the scores, or 'first' to fix only the first item, as the paper
        does. Default: first for poe-g and poe-g-hard; for poe-bt 100, or 10 if all answers are decisions.
    prior_pairs : For bt: which pairs get a prior of 1/(N − 1) wins for either side. compared is the paper's. Default:
        none, maximum likelihood.
    voice : Fit the answers of this judge alone: a voice of a run folder, or a name in the column judge. May be
        repeated.
    criterion : Of a run by several criteria: fit the answers to this one. Default: each alone, and the overall.
    people : For panel and --powered: the judges that are people, such as ana,bo. May be repeated.
    control : For mixed and panel: control for length, markup, opening, a column of numbers of --items, or the folder
        of an audit. Prints scores at equal
        length beside the others, and what each judge gives for length. May be repeated.
    items : For --control and --groups: the file of the texts, with columns id, text and, if you have them, context_id
        and group. Default: those of a run folder.
    is_grouped : For mixed, panel and --leaderboard: use the groups of the texts, such as the system that wrote them, as
        the run folder or --items has them (else the same id in other contexts): texts of one group inform each other's
        scores, and the leaderboard is that of the groups.
    votes : People's votes about some of the same items: the ranking is then what people would say of all items, from
        both. May be repeated.
    leaderboard : Rank the items over all contexts too, as when systems (the items) answer many questions (contexts).
    is_powered : Instead: people's leaderboard from --votes, or from judges named by --people, with the other answers as
        help, of which nothing is assumed; says how many votes they saved.
    family : For --leaderboard: families of judges and systems, OpenAI=gpt-3,gpt-4 by parts of their names, or a file
        with columns name and family. Prints how much each judge favours its own, and a second leaderboard without
        votes by a system's own family. May be repeated.
    anchors : Texts with known scores, in a file with columns id, score or anchor (blank for others) and, if there are
        contexts, context_id: every text gets a score on their scale, with its interval (docs/grades.md).
    grades : Cut points on the scale of --anchors, 'A>=85, B>=70'; ids of boundary texts, which just reach a grade,
        'A>=ana, B>=bo'; or shares of the texts, 'A:10%, B:25%': the grade of each text, and the probability of each.
    linked_to : Another run or file of comparisons, with some of the same texts: all are ranked together on its scale,
        by mixed unless --method says otherwise; common texts that moved are named (docs/grades.md).
    these : For --leaderboard and --powered: intervals for these contexts only. Default: for all contexts that could
        have been drawn.
    level : Coverage of the intervals low to high, and what separates tiers.
    top : Print only the best TOP of each context.
    output : How to print the ranking.
    report : Also write a page about the ranking, and how far to trust it, to this .html file: the report of comparo
        rank, without texts. With grades or anchors also a class list, .csv or .xlsx.

    Examples
    --------
    `comparo fit comparisons.csv --method poe-bt --bias joint --format csv`; `comparo fit sheets/*.xlsx`; a run by one
    of its voices: `comparo fit comparo-runs/20260301-120000-stories --voice openai/gpt-6-luna`; with a page: `comparo
    fit votes.csv --report votes.html`; people's leaderboard with a machine's help: `comparo fit --powered judged.csv
    --votes votes.csv`
    """
    over: Over = "these" if these else "new"
    if linked_to is not None and (votes or leaderboard or is_powered or is_grouped or control or voice or criterion):
        raise ValueError(
            "--link ranks whole runs: leave --votes, --leaderboard, --powered, --groups, --control, --voice and "
            "--criterion out"
        )
    if grades is not None:
        Grading.of(grades)  # says what is wrong before anything is fitted
    if is_powered:
        if anchors is not None or grades is not None:
            raise ValueError(
                "--anchors and --grades are for texts, --powered ranks their groups; leave one of them out"
            )
        _print_powered(
            powered(
                read_several(files),
                read_several(votes) if votes else None,
                _own_groups(files) or "items",
                people=names_in(people),
                contexts=over,
                level=level,
            ),
            output,
        )
        return
    held = _stored_anchors([*files, *filter(None, [linked_to])])
    if report is not None:
        _check_page(
            report, filter(None, [*files, linked_to, anchors]), bool(held) or grades is not None or anchors is not None
        )
    criteria = criteria_in(files)
    given = {"report": report, "votes": votes, "leaderboard": leaderboard, "anchors": anchors, "grades": grades}
    given |= {"link": linked_to}
    check_criterion(files[0], criteria, criterion, voice, [name for name, value in given.items() if value])
    if leaderboard and method not in (None, "mixed", "panel"):
        raise ValueError(
            f"--leaderboard is made by mixed or panel, not by {method}; leave --method or --leaderboard out"
        )
    chosen = _chosen(files, voice) if criterion is None else answers_to(files[0], criterion)
    both = there = None
    if linked_to is not None:
        chosen, there, both = _joined(files, linked_to)
    if family and (is_grouped or not leaderboard):
        raise ValueError("--family belongs to --leaderboard, where the items are systems: without --groups")
    is_plain = not (prior or bias or people or control)
    are_votes = (
        is_plain and method in (None, "mixed") and all(one.voted and one.hard for one in (chosen, both or chosen))
    )
    usual: Method | None = "mixed" if are_votes or linked_to is not None else None
    method = method or usual or _usual(files, chosen, prior)
    estimates = method in ("mixed", "panel") or prior == "estimated"
    if is_grouped and not (estimates or leaderboard):
        raise ValueError("--groups belongs to --method mixed or panel, or to --leaderboard; add one of them")
    if control and (folder := _folder(files)) is not None:
        configuration = read_configuration(folder)
        audited(control, [(configuration["identity"]["judge"], configuration.get("wording"))])
    control = [*audited_terms(control or ())]
    texts = _texts(files, items, control, is_grouped)
    groups = _groups(texts) if is_grouped and texts is not None else None
    how: dict[str, Any] = {
        "bias": bias,
        "prior": _prior(prior),
        "groups": groups if estimates else None,
        "control": _held(texts, control) if control and texts is not None else None,
        "people": names_in(people),
        "prior_pairs": prior_pairs,
        "level": level,
    }
    fitted: Callable[[Comparisons], Ranking] = partial(quiet_fit, method=method, **how)
    if criteria and criterion is None:
        print_criteria_fit(files[0], fitted, method, output, top)
        return
    if are_votes:
        own = shared_ids(chosen) if _folder(files) is None else _own_groups(files)
        fitted = partial(rank_votes, groups=groups or own, level=level)
    linked = None
    if both is not None and there is not None:
        linked = link(chosen, there, both, fitted, has_groups=estimates)
    ranking = fitted(chosen) if linked is None else linked.ranking
    if votes:
        ranking = with_votes(ranking, read_several(votes))
    if leaderboard:
        ranking = replace(ranking, group=group_codes(ranking.comparisons, ranking.graph, groups or "items"))
        board = ranking.groups(contexts=over)  # says what is wrong where items cannot be compared
        if output == "table":
            print_board(board)
        if family:
            _print_families(own_family(chosen, _families(family, chosen), level=level), output)
    scaled = None
    known = {key: held[str(key)] for key in ranking if str(key) in held}
    known = known if anchors is None else _anchors(anchors, ranking)
    if known or grades is not None:
        scaled = ranking.on_scale(known, grades)
    more = None if linked is None else {"link": {"error": linked.error, "common": json_rows(linked.common)}}
    print_ranking(scaled or ranking, output, top, more)
    if linked is not None:
        if output == "table" and ranking.grown is not None:
            print_moved(ranking, ranking.grown)
        say(linked.sentence)
        print_notes(linked.notes)
    if voice or _folder(files) is not None:
        say(_fitted(chosen, files, ranking.method) + (f" to the criterion {criterion}" if criterion else ""))
    print_notes((*ranking.notes, *(board.notes if leaderboard else ()), *(scaled.notes if scaled else ())))
    told = () if ranking.people is None else (ranking.people.sentence,)
    if report is not None:
        from comparo.report.page import render, save_page
        from comparo.report.record import Fitted, fitted_record, read_why

        again = Fitted(bias or ("joint" if estimates else None), fitted)
        record = fitted_record(ranking, again, _named(files), command_line(context))
        folder = _folder(files)
        record = replace(record, graded=scaled, why=None if folder is None else read_why(folder))
        is_list = report.suffix.lower() in LISTS
        save_page(
            report,
            _class_list(scaled, (record.why or {}).get("feedback"), report) if scaled and is_list else render(record),
        )
        say(f"Report: {report}")
    for sentence in (*told, *tie_sentences(ranking.ties), *control_sentences(ranking.control)):
        say(sentence)


def _joined(files: list[Path], other: Path) -> tuple[Comparisons, Comparisons, Comparisons]:
    """The comparisons of this run, of the other and of both, with the same labels.

    Runs of one judge each have a column judge where these differ.
    """
    judges = [_only_voice([path]) for path in (*files, other)]
    is_named = any(names != judges[0] for names in judges)
    here, there = (read_parts(paths, is_named=is_named) for paths in (files, [other]))
    if here.keys() & there.keys():
        raise ValueError(f"--link {other} is the run itself; name another run, with some of the same texts")
    both = join(here | there, is_once=False)
    is_here = np.arange(len(both)) < sum(len(part["p"]) for part in here.values())
    return both.take(is_here).trimmed(), both.take(~is_here).trimmed(), both


def _families(given: list[str], data: Comparisons) -> dict[Any, str]:
    """The family of each judge and system: by parts of names, and by files with columns name and family."""
    names = [*data.items.tolist(), *([] if data.judges is None else data.judges.tolist())]
    parts = [text.partition("=") for text in given if "=" in text]
    patterns = {name.strip(): [part.strip() for part in said.split(",") if part.strip()] for name, _, said in parts}
    if empty := [name for name, said in patterns.items() if not name or not said]:
        raise ValueError(f"--family {empty[0]}= names no systems; give parts of their names, as OpenAI=gpt-3,gpt-4")
    found = families_of(names, patterns)
    for path in (text for text in given if "=" not in text):
        columns = read_columns(path, wanted=["name", "family"]).columns
        if missing := [name for name in ("name", "family") if name not in columns]:
            raise ValueError(f"--family {path} has no column {missing[0]!r}; it needs name and family")
        listed = {str(name): str(of) for name, of in zip(columns["name"], columns["family"], strict=True)}
        found |= {name: listed[str(name)] for name in names if str(name) in listed}
    return found


def _print_families(found: OwnFamily, output: Format) -> None:
    """How much judges favour their own family, and the leaderboard without votes by a system's own family."""
    if output == "table":
        print_columns(found.to_columns())
        print_text(
            "\nWithout votes by a system's own family, in standard deviations, beside the scores by all judges:\n\n"
        )
        print_columns(found.board())
        print_text("\n")
    say(found.sentence)


def _anchors(path: Path, ranking: Ranking) -> dict[Any, float]:
    """The known scores in a file, by the labels of the ranking."""
    table = read_columns(path, wanted=["id", "context_id", "score", "anchor"], labels=["id", "context_id"])
    columns = table.columns
    name = "anchor" if "anchor" in columns else "score"
    if missing := [role for role in ("id", name) if role not in columns]:
        raise ValueError(f"--anchors {path} has no column {missing[0]!r}; it needs id, and score or anchor")
    contexts = columns.get("context_id") if ranking.context is not None else None
    known: dict[Any, list[Any]] = {}
    for context, item in ranking.graph.labels(ranking.comparisons):
        key = str(item) if contexts is None else (str(context), str(item))
        known.setdefault(key, []).append(item if ranking.context is None else (context, item))
    found: dict[Any, float] = {}
    for row, (item, value) in enumerate(zip(columns["id"], columns[name], strict=True)):
        score = as_number(value)
        if math.isnan(score):
            continue
        key = str(item) if contexts is None else (str(contexts[row]), str(item))
        if math.isinf(score):
            raise table.error([row], name, f"{shown(value)} is not a number; correct it, or leave it empty")
        if len(known.get(key, ())) != 1:
            problem = (
                "is in several contexts; add a column context_id" if key in known else "is not compared; correct it"
            )
            raise table.error([row], "id", f"{shown(item)} {problem}, or drop the row")
        if known[key][0] in found:
            raise table.error([row], "id", f"{shown(item)} stands there before; give each anchor one score")
        found[known[key][0]] = score
    return found


def _stored_anchors(files: list[Path]) -> dict[str, float]:
    """The known scores that run folders hold, by the label of the text as it is written."""
    folders = filter(None, (_folder([path]) for path in files))
    return {str(key): value for folder in folders for key, value in stored_items(folder).anchors.items()}


def _class_list(scaled: Scaled, feedback: Mapping[tuple[str, str], str] | None, path: Path) -> str | bytes:
    """The class list as the ending of `path` says."""
    columns = scaled.class_list(feedback)
    if path.suffix.lower() == ".csv":
        return csv_text(columns)
    return table_workbook({name: column.tolist() for name, column in columns.items()}, ["feedback"])


def _check_page(path: Path, files: Iterable[Path], has_list: bool) -> None:
    """Whether a page or a class list can be written there, before anything is fitted."""
    if path.suffix.lower() not in (".html", ".htm", *LISTS):
        raise ValueError(f"--report {path} is a page or a class list: name a file that ends in .html, .csv or .xlsx")
    if path.suffix.lower() in LISTS and not has_list:
        raise ValueError(
            f"--report {path} is a class list, which needs --grades or --anchors; or name a file that ends in .html"
        )
    if path.resolve() in (file.resolve() for file in files):
        raise ValueError(f"--report {path} is a file of comparisons; name another file")
    if not path.parent.is_dir():
        raise ValueError(f"--report: the folder {path.parent} does not exist; create it first")


def _named(files: list[Path]) -> str:
    """The comparisons in a few words: the name of their file, and how many others there are."""
    more = f" and {len(files) - 1} more" if len(files) > 1 else ""
    return f"{files[0].resolve().name}{more}"


def _own_groups(files: list[Path]) -> dict[Any, Any] | None:
    """The groups of the texts of a run folder; None where there are none."""
    folder = _folder(files)
    texts = None if folder is None else stored_items(folder)
    return None if texts is None or not Fitting(texts).has_groups else _groups(texts)


def _folder(files: list[Path]) -> Path | None:
    """The run folder, if that is the only file."""
    database = database_of(files[0]) if len(files) == 1 else None
    return None if database is None else database.parent


def _print_powered(found: Powered, output: Format) -> None:
    if output == "csv":
        print_text(csv_text(found.board.to_columns()))
    elif output == "table":
        print_board(found.board)
    else:
        document = {
            "leaderboard": json.loads(found.board.to_json()),
            "people_only": json.loads(found.people_only.to_json()),
            "weight": {str(name): value for name, value in found.weight.items()},
            "votes": found.votes,
            "matched": found.matched,
            "worth": found.worth,
            "left_out": [str(name) for name in found.left_out],
        }
        print_text(json.dumps(document, ensure_ascii=False) + "\n")
    say(found.sentence)


def _usual(files: list[Path], comparisons: Comparisons, prior: str | None) -> Method:
    """The method where none is named; one file is fitted as it always was."""
    judges = len(np.unique(comparisons.judged_by))
    if len(files) == 1 or judges == 1 or prior is not None:
        return "poe-bt"
    say(
        f"{judges} judges: method mixed, with a position bias and ties of each; --method panel also estimates what "
        "each judge is worth, and --method poe-bt takes all answers as those of one judge; people's votes have a "
        "column voter in place of judge"
    )
    return "mixed"


def _chosen(files: list[Path], voices: list[str] | None) -> Comparisons:
    """The comparisons of files or run folders, those of some voices alone where they are named."""
    comparisons = read_several(files)
    if not voices:
        return comparisons
    by_text = {str(name): name for name in ([] if comparisons.judges is None else comparisons.judges.tolist())}
    known = list(by_text) or _only_voice(files)
    if not known:
        raise ValueError(f"{files[0]} has no column judge, so there is no --voice to choose; leave it out")
    if missing := [name for name in voices if name not in known]:
        raise ValueError(f"{files[0]} has no voice {missing[0]!r}; its voices are {', '.join(known)}")
    return comparisons.by_judges(by_text[name] for name in voices) if by_text else comparisons


def _only_voice(files: list[Path]) -> list[str]:
    """The judge of a run of one voice, whose answers name none; nothing for a file."""
    folder = _folder(files)
    return [] if folder is None else [str(read_configuration(folder)["identity"]["judge"])]


def _fitted(comparisons: Comparisons, files: list[Path], method: str) -> str:
    """What was fitted, in one line."""
    names = list(map(str, [] if comparisons.judges is None else comparisons.judges.tolist())) or _only_voice(files)
    who = f"{len(names)} voices ({', '.join(names)})" if len(names) > 1 else names[0]
    return f"fitted by {method}: {comparisons.answers:,} answers by {who}"


def _texts(files: list[Path], items: Path | None, control: Sequence[str], is_grouped: bool) -> Items | None:
    """The items that --control and --groups need, from their file or the run folder."""
    if not (control or is_grouped):
        if items is not None:
            raise ValueError("--items belongs to --control and --groups; add one of them, or leave --items out")
        return None
    if items is not None:
        return Items.of(str(items), numbers=columns_in(control))
    if (folder := _folder(files)) is None:
        raise ValueError(f"--{'control' if control else 'groups'} needs the texts; name their file by --items")
    return stored_items(folder)


def _held(texts: Items, control: Sequence[str]) -> dict[str, Numbers]:
    """The numbers to control for, by the labels of the comparisons."""
    found = texts.held(control)
    for name, of_item in found.items():
        found[name] = Numbers(_spelt(texts, of_item))
        found[name].prior = of_item.prior
    return found


def _groups(texts: Items) -> dict[Any, Any]:
    """The group of each text, by the labels of the comparisons."""
    group = Fitting(texts).group
    if group is None:
        raise ValueError(
            "--groups: no two texts share a group; give them a column group in --items, or the same ids in several "
            "contexts"
        )
    return _spelt(texts, {(context, item): of for context, own in group.items() for item, of in own.items()})


def _spelt(texts: Items, of_item: Mapping[tuple[Any, Any], Any]) -> dict[Any, Any]:
    """What is known by context and id, also as CSV spells both, and by the id alone where that is enough."""
    found: dict[Any, Any] = {(None if a is None else str(a), str(b)): value for (a, b), value in of_item.items()}
    found |= of_item
    if len(set(texts.ids.tolist())) == len(texts):
        found |= {spelt: value for (_, b), value in of_item.items() for spelt in (b, str(b))}
    return found


def _prior(text: str | None) -> Any:
    if text in (None, "first", "estimated"):
        return text
    try:
        return float(str(text))
    except ValueError:
        raise ValueError(f"--prior is a number above 0, 'first' or 'estimated', not {text!r}") from None
