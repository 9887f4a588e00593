"""comparo fit: scores and a ranking from recorded comparisons."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from comparo.analysis.judge_biases import OwnFamily, own_family
from comparo.cli.fit_files import (
    LISTS,
    check_criterion,
    check_page,
    chosen_answers,
    class_list,
    criteria_in,
    families_in,
    folder_of,
    groups_of,
    held_numbers,
    joined_files,
    only_voice,
    own_groups,
    read_anchors,
    stored_anchors,
    texts_of,
)
from comparo.cli.flags import Count, names_in
from comparo.cli.printing import (
    Format,
    print_as,
    print_board,
    print_columns,
    print_criteria,
    print_notes,
    print_ranking,
    print_text,
    say,
    say_if_many,
)
from comparo.cli.settings import command_line
from comparo.data.comparisons import Comparisons
from comparo.data.sheets import read_several
from comparo.data.wordings import few
from comparo.log.store import read_configuration, stored_items
from comparo.methods import ESTIMATES, Method, quiet_fit
from comparo.model.estimators.poe import Bias
from comparo.ranking.criteria_ranking import CriteriaRanking
from comparo.ranking.display import taste_sentences
from comparo.ranking.grades import Grading
from comparo.ranking.grouping import group_codes
from comparo.ranking.leaderboard import Over
from comparo.ranking.powered import Powered, powered
from comparo.ranking.ranking import Ranking, with_solution
from comparo.ranking.scale import on_scale
from comparo.ranking.votes import with_votes
from comparo.run.audit_card import audited, audited_terms
from comparo.run.criteria import by_criterion, concluded, stored_answers
from comparo.run.fit_policy import fitting_of
from comparo.run.linking import link
from comparo.run.voices import comparisons

WHY = {
    "mixed": ", the usual method of one voice, or of few answers",
    "panel": ", the usual method for several voices with enough answers each, or of which only some decide",
}


def fit_command(
    files: list[Path],
    method: Method | None = None,
    bias: Bias | None = None,
    prior: str | None = None,
    voice: list[str] | None = None,
    columns: list[str] | None = None,
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
    top: Count = None,
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
        judge; or a column winner in place of p: first, second, A, B, an item's name, or tie; also model_a, model_b, or
        left, right; or winner, loser; or wins_first, wins_second. Rows without a winner were not judged: left out.
    method : How comparisons become scores. poe-bt and poe-g combine the judge's probabilities; bt, poe-g-hard and
        win-ratio use only who won, davidson also who tied; avg-prob is the mean probability. mixed estimates all
        variances from the comparisons. panel is the consensus of several judges or people, and estimates the worth of
        each. Default: that of the report of a run folder; for other files panel, where two judges gave enough answers
        or some give probabilities and others decide, else mixed.
    bias : A judge may favour what it sees first. joint: estimate by how much, along with the scores, for each context
        and judge. plug-in: from the mean probability, for poe-bt. Default: joint for mixed and panel, else none.
    prior : For poe-bt and poe-g: standard deviation of a Gaussian prior on the scores, or 'first' to fix only the first
        item, as the paper does. Default: first for poe-g and poe-g-hard; for poe-bt 100, or 10 if all answers are
        decisions.
    voice : Fit the answers of this judge alone: a voice of a run folder, or a name in the column judge. May be
        repeated.
    columns : What the files call these columns: 'first=essay_1, second=essay_2, winner=better'. May be repeated.
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
    if columns and (linked_to or is_powered):
        raise ValueError("--columns is for comparisons in files, without --link and --powered; leave it out")
    if grades is not None:
        Grading.of(grades)  # raises before anything is fitted
    if is_powered:
        if anchors is not None or grades is not None:
            raise ValueError(
                "--anchors and --grades are for texts, --powered ranks their groups; leave one of them out"
            )
        said = read_several(votes) if votes else None
        how: dict[str, Any] = {"people": names_in(people), "contexts": over, "level": level}
        _print_powered(powered(read_several(files), said, own_groups(files) or "items", **how), output)
        return
    held = stored_anchors([*files, *filter(None, [linked_to])])
    if report is not None:
        has_list = bool(held) or grades is not None or anchors is not None
        check_page(report, filter(None, [*files, linked_to, anchors]), has_list)
    criteria = criteria_in(files)
    given = {"report": report, "votes": votes, "leaderboard": leaderboard, "anchors": anchors, "grades": grades}
    given |= {"link": linked_to}
    check_criterion(files[0], criteria, criterion, voice, [name for name, value in given.items() if value])
    if leaderboard and method not in (None, "mixed", "panel"):
        raise ValueError(
            f"--leaderboard is made by mixed or panel, not by {method}; leave --method or --leaderboard out"
        )
    folder = folder_of(files)
    linked = None if linked_to is None else joined_files(files, linked_to)
    if linked is not None:
        chosen, *_ = linked
    elif folder is not None and criterion is not None:
        chosen = comparisons(by_criterion(*stored_answers(folder))[criterion].values())
    else:
        chosen = chosen_answers(files, voice, columns)
    if family and (is_grouped or not leaderboard):
        raise ValueError("--family belongs to --leaderboard, where the items are systems: without --groups")
    is_usual = method is None and prior is None and bias != "plug-in"
    estimates = is_usual or method in ESTIMATES or prior == "estimated"
    if is_grouped and not (estimates or leaderboard):
        raise ValueError("--groups belongs to --method mixed or panel, or to --leaderboard; add one of them")
    if control and folder is not None:
        configuration = read_configuration(folder)
        audited(control, [(configuration["identity"]["judge"], configuration.get("wording"))])
    control = [*audited_terms(control or ())]
    texts = texts_of(files, items, control, is_grouped)
    groups = groups_of(texts) if is_grouped and texts is not None else None
    how = {
        "bias": bias,
        "prior": _prior(prior),
        "groups": groups if estimates else None,
        "control": held_numbers(texts, control) if control and texts is not None else None,
        "people": names_in(people),
        "level": level,
    }
    fitted: Callable[[Comparisons], Ranking] = partial(quiet_fit, method=method, **how)
    if folder is not None and is_usual and not (bias or people or linked_to):
        stored = fitting_of(read_configuration(folder), texts or stored_items(folder), folder)
        stored = replace(stored, control=tuple(control) or stored.control, level=level)
        fitted = replace(stored, votes=None if votes else stored.votes, past=None if voice else stored.past).conclude
    if folder is not None and criteria and criterion is None:
        _print_criteria(folder, fitted, output, top)
        return
    say_if_many(chosen)
    ranking = fitted(chosen) if linked is None else link(*linked, fitted, has_groups=estimates)
    people_said = read_several(votes) if votes else None
    if people_said is not None:
        ranking = with_votes(ranking, people_said)
    board = None
    if leaderboard:
        ranking = with_solution(ranking, groups=group_codes(ranking.comparisons, ranking.graph, groups or "items"))
        board = ranking.groups(contexts=over)  # raises if items cannot be compared
        if output == "table":
            print_board(board)
        if family:
            _print_families(own_family(chosen, families_in(family, chosen), level=level), output)
    scaled = None
    known = {key: held[str(key)] for key in ranking if str(key) in held}
    known = known if anchors is None else read_anchors(anchors, ranking)
    if known or grades is not None:
        scaled = on_scale(ranking, known, grades)
    print_ranking(ranking, output, top, scaled=scaled)
    if voice or folder is not None or (method is None and chosen.judges is not None):
        asked = f" to the criterion {criterion}" if criterion else ""
        say(_fitted(chosen, files, ranking.method) + asked + (WHY.get(ranking.method, "") if is_usual else ""))
    for noted in (ranking, board, scaled):
        print_notes(() if noted is None else noted.notes)
    told = () if ranking.people is None else (ranking.people.sentence,)
    if report is not None:
        from comparo.report.page import render, save_page
        from comparo.report.record import Fitted, fitted_record, read_why, shown_items

        shown = None if folder is None or people_said is None else shown_items(folder)
        made = Fitted(bias or ("joint" if estimates else None), people_said, shown)
        record = fitted_record(ranking, made, _named(files), command_line(), *only_voice(files))
        record = replace(record, graded=scaled, why=None if folder is None else read_why(folder))
        if scaled and report.suffix.lower() in LISTS:
            save_page(report, class_list(scaled, (record.why or {}).get("feedback"), report))
        else:
            save_page(report, render(record))
        say(f"Report: {report}")
    for sentence in (*told, *taste_sentences(ranking)):
        say(sentence)


def _print_criteria(folder: Path, fit: Callable[[Comparisons], Ranking], output: Format, top: int | None) -> None:
    """Fit each criterion of a run folder, and print the overall ranking with the scores by each, as the run does."""
    found = concluded(fit, *stored_answers(folder))
    assert isinstance(found, CriteriaRanking)
    told = print_criteria(found, output, top)
    answers = sum(len(each.judged.comparisons) for each in found.rankings.values())
    first, *_ = found.rankings.values()
    say(
        f"fitted by {first.method}: {answers:,} answers to {len(found.rankings)} criteria, each by itself; overall: "
        f"their weighted mean ({told}); --criterion NAME is for one alone"
    )
    print_notes(found.notes)


def _print_families(found: OwnFamily, output: Format) -> None:
    """Print how much judges favour their own family, and the leaderboard without votes by a system's own family."""
    if output == "table":
        print_columns(found.to_columns())
        print_text(
            "\nWithout votes by a system's own family, in standard deviations, beside the scores by all judges:\n\n"
        )
        print_columns(found.board())
        print_text("\n")
    say(found.sentence)


def _named(files: list[Path]) -> str:
    """The name of the comparisons: that of their first file, and the number of the others."""
    more = f" and {len(files) - 1} more" if len(files) > 1 else ""
    return f"{files[0].resolve().name}{more}"


def _print_powered(found: Powered, output: Format) -> None:
    document = {
        "leaderboard": json.loads(found.board.to_json()),
        "people_only": json.loads(found.people_only.to_json()),
        "weight": {str(name): value for name, value in found.weight.items()},
        "votes": found.votes,
        "matched": found.matched,
        "worth": found.worth,
        "left_out": list(found.left_out),
    }
    if not print_as(output, found.board.to_columns(), document):
        print_board(found.board)
    say(found.sentence)


def _fitted(comparisons: Comparisons, files: list[Path], method: str) -> str:
    """What was fitted, in one line."""
    judges = [] if comparisons.judges is None else comparisons.judges.tolist()
    names = sorted(map(str, judges)) or only_voice(files)
    who = f"{len(names)} voices ({few(names)})" if len(names) > 1 else names[0]
    return f"fitted by {method}: {comparisons.answers:,} answers by {who}"


def _prior(text: str | None) -> Any:
    if text in (None, "first", "estimated"):
        return text
    try:
        return float(str(text))
    except ValueError:
        raise ValueError(f"--prior is a number above 0, 'first' or 'estimated', not {text!r}") from None
