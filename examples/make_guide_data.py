"""Make the data of a guide in the working folder: `python examples/make_guide_data.py prompts` (or essays, judge, …).

The texts are built of ready sentences, and how good each is was decided beforehand. So a simulated judge has something
to know, a guide costs nothing, and its result can be checked.
"""

import json
import sys
from itertools import permutations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

Array = NDArray[np.float64]
PROMPTS = {"main": 0.0, "branch": 1.5, "mistake": -1.5}  # how much better the answers are on the mean, in logits
THINGS = "invoice,password,subscription,address,refund,phone number,gift card,newsletter,receipt,order".split(",")
DEEDS = "change,cancel,find,print".split(",")
HELP = (
    "Open Settings and choose the {thing}.",
    "There is a button to {deed} it.",
    "You will get an e-mail that confirms it.",
    "It takes effect at once.",
    "If the button is grey, ask the owner of the account.",
    "Nothing else in your account changes.",
)
REASONS = (
    "because a map is cheaper than a detour",
    "because the evidence of the last ten years points that way",
    "because the opposite was tried and failed",
    "because it costs little to change one's mind later",
    "because those who disagree have not answered the main point",
    "because the numbers in the town's own report say so",
    "because a rule that nobody follows is worse than none",
)
TOPICS = "school uniforms,night buses,homework,city trees,free museums,slow food,car-free Sundays,public radio".split(
    ","
)


def write(name: str, rows: list[dict[str, object]]) -> None:
    """Write rows as JSON Lines."""
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def answers(rng: np.random.Generator, gain: float) -> tuple[list[dict[str, object]], Array]:
    """An answer to each of 40 questions, and its quality: normal, with the mean `gain`."""
    rows, found = [], gain + rng.standard_normal(len(THINGS) * len(DEEDS))
    for number, (thing, deed) in enumerate((thing, deed) for thing in THINGS for deed in DEEDS):
        several = int(np.clip(round(3.5 + 0.4 * found[number] + rng.standard_normal()), 1, len(HELP)))
        said = [HELP[place] for place in sorted(rng.choice(len(HELP), several, replace=False))]
        text = " ".join(said).format(thing=thing, deed=deed)
        rows.append({"id": f"q{number:03}", "context": f"How do I {deed} my {thing}?", "text": text})
    return rows, found


def prompts() -> None:
    """Answers by today's prompt, by a better one and by one that is worse, and what a judge says of them."""
    made = {name: answers(np.random.default_rng(seed), gain) for seed, (name, gain) in enumerate(PROMPTS.items())}
    rng, judged = np.random.default_rng(9), ["context,first,second,p"]
    for name, (rows, _) in made.items():
        write(f"{name}.jsonl", rows)
    for first, second in permutations(made, 2):
        d = made[first][1] - made[second][1] + 0.4 + rng.standard_normal(len(made[first][1]))
        rows = zip(made[first][0], expit(d), strict=True)
        judged += [f"{row['id']},{first},{second},{p:.3f}" for row, p in rows]
    Path("judged.csv").write_text("\n".join(judged) + "\n", encoding="utf-8")


def essays() -> None:
    """200 essays in a folder, which give one to seven reasons."""
    rng = np.random.default_rng(3)
    folder = Path("essays")
    folder.mkdir(exist_ok=True)
    for number in range(1, 201):
        topic = TOPICS[number % len(TOPICS)]
        reasons = rng.choice(REASONS, size=rng.integers(1, len(REASONS) + 1), replace=False)
        said = " ".join(f"We should keep them {reason}." for reason in reasons)
        (folder / f"pupil{number:03}.txt").write_text(f"On {topic}.\n\n{said} So I believe.\n", encoding="utf-8")


def judge() -> None:
    """Three systems' answers to 40 questions, the answers of four judges about them, and the votes of two people."""
    rng = np.random.default_rng(5)
    systems = {"small": -0.7, "middle": 0.0, "large": 0.7}
    made = {name: answers(rng, gain) for name, gain in systems.items()}
    contexts = [row["context"] for row in made["small"][0]]
    write("answers.jsonl", [row | {"id": name} for name, (rows, _) in made.items() for row in rows])
    length = {name: np.array([len(str(row["text"]).split()) for row in rows]) for name, (rows, _) in made.items()}
    quality = {name: found for name, (_, found) in made.items()}
    # What each judge sees in a text, the noise of its answers, and what it gives for being shown first, in logits.
    judges = {
        "careful": (quality, 0.7, 0.3),
        "steady": ({name: 0.7 * value for name, value in quality.items()}, 0.9, -0.2),
        "wordy": ({name: 0.06 * value for name, value in length.items()}, 0.6, 0.1),
        "hasty": ({name: 0.1 * value for name, value in quality.items()}, 0.3, 1.5),
    }
    for judge, (seen, noise, bias) in judges.items():
        lines = ["context,first,second,p"]
        for first, second in permutations(systems, 2):
            d = seen[first] - seen[second] + bias + noise * rng.standard_normal(len(contexts))
            lines += [f"{context},{first},{second},{p:.3f}" for context, p in zip(contexts, expit(d), strict=True)]
        Path(f"{judge}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    votes = ["context,first,second,p,judge"]
    for _ in range(100):
        number = rng.integers(len(contexts))
        first, second = rng.choice(list(systems), 2, replace=False).tolist()
        for person in ("ana", "bo"):
            seen_by = quality[first][number] - quality[second][number] + 0.7 * rng.standard_normal()
            votes.append(f"{contexts[number]},{first},{second},{int(seen_by > 0)},{person}")
    Path("votes.csv").write_text("\n".join(votes) + "\n", encoding="utf-8")


def million() -> None:
    """50,000 comparisons of 5,000 items in a Parquet file: the step from a file, at a size that takes no time."""
    import pandas as pd

    rng, items = np.random.default_rng(13), 5_000
    truth = rng.standard_normal(items)
    first = rng.integers(items, size=10 * items)
    second = (first + rng.integers(1, items, size=10 * items)) % items
    p = expit(truth[first] - truth[second] + 0.3 + 0.5 * rng.standard_normal(10 * items))
    pd.DataFrame({"first": first, "second": second, "p": p}).to_parquet("comparisons.parquet")


MAKERS = {make.__name__: make for make in (prompts, essays, judge, million)}

if __name__ == "__main__":
    if sys.argv[1:] and sys.argv[1] in MAKERS:
        MAKERS[sys.argv[1]]()
    else:
        sys.exit(f"python {sys.argv[0]} {'|'.join(MAKERS)}")
