"""A metric in the style of Hugging Face evaluate: how often are predictions better than references?

`compute` needs no other library. `as_metric` makes an `evaluate.Metric` of it, for code that adds predictions batch by
batch or combines metrics.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from comparo.run.compare import compare

NAMES = "reference", "prediction"


def compute(
    predictions: Sequence[str],
    references: Sequence[str],
    criterion: str | None = None,
    *,
    contexts: Sequence[str] | None = None,
    **asked: Any,
) -> dict[str, Any]:
    """Ask a judge which is better, the prediction or the reference, input by input, until the answer is sure.

    Parameters
    ----------
    predictions, references
        One text each per input, in the same order.
    contexts
        What the texts are about, one per input, which the judge is shown: the question, the article.
    criterion, asked
        As for `comparo.compare`: judge, options, kind, heading, wording, prompt, budget, level, stop, seed, out, cache.
        `stop=False` asks about every input, also once the answer is sure.

    Returns
    -------
    dict
        `win_rate`, the mean probability that the judge prefers the prediction; `low` and `high`, its interval;
        `verdict`, a sentence; `probability` that predictions are better; `inputs` that were asked or have
        the same text twice, `calls`, and their `cost` in dollars, NaN where it is unknown.

    Raises
    ------
    ValueError
        If the lists differ in length, and as for `comparo.compare`.

    Examples
    --------
    >>> references = [f"answer {k}" for k in range(30)]
    >>> predictions = [f"a longer {text}" for text in references]
    >>> judge = lambda first, second: 0.7 if len(first) > len(second) else 0.3
    >>> found = compute(predictions, references, "better", judge=judge)
    >>> [round(found[name], 2) for name in ("win_rate", "low", "high", "calls")]
    [0.7, 0.54, 0.82, 32]
    >>> found["verdict"]
    'prediction is better than reference: win rate 70% (54% to 82%) on 16 inputs'
    """
    columns = {"predictions": predictions, "references": references}
    columns |= {} if contexts is None else {"contexts": contexts}
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{count} {name}" for name, count in lengths.items())
        raise ValueError(f"there are {told}; give one of each per input")
    texts: list[dict[str, str]] = [
        {} if contexts is None else {"context": context} for context in contexts or predictions
    ]
    one, other = (
        [{"text": text, **row} for text, row in zip(side, texts, strict=True)] for side in (references, predictions)
    )
    duel = compare(one, other, criterion, names=NAMES, **asked)
    low, high = duel.interval
    return {
        "win_rate": duel.win_rate,
        "low": low,
        "high": high,
        "verdict": duel.verdict,
        "probability": duel.probability,
        "inputs": len(duel.win),
        "calls": duel.calls,
        "cost": duel.cost,
    }


def as_metric(criterion: str | None = None, **asked: Any) -> Any:
    """An `evaluate.Metric` that computes `compute` with these settings; those given to its `compute` come first.

    Needs evaluate: pip install evaluate. Predictions and references may be added in batches; contexts, where there are
    any, are all given to `compute`.
    """
    try:
        import datasets
        import evaluate
    except ImportError as error:
        raise ImportError(f"as_metric needs {error.name}: pip install evaluate") from error

    features = datasets.Features({name: datasets.Value("string") for name in ("predictions", "references")})

    class Comparo(evaluate.Metric):  # type: ignore[misc]  # the library has no types
        def _info(self) -> Any:
            return evaluate.MetricInfo(
                description="How often a judge finds predictions better than references.",
                citation="https://aclanthology.org/2024.emnlp-main.389",
                inputs_description=compute.__doc__,
                features=features,
            )

        def _compute(self, **given: Any) -> dict[str, Any]:
            return compute(**{"criterion": criterion, **asked, **given})

    return Comparo()
