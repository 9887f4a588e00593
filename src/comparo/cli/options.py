"""What several commands ask for: the judge, the question put to it, and where the items' columns are."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from comparo.data.items import Items
from comparo.data.prompts import PAPER
from comparo.data.rundata import DATABASE, database_of
from comparo.judges import Judge, load_judge, ray_judge

JudgeName = Annotated[
    str,
    typer.Option(
        "--judge",
        help="provider/model: local/smollm2 (embedded, a smoke test), local/PATH.gguf, hf/REPOSITORY-OR-FOLDER, "
        "openai/MODEL (also for any compatible server, with --base-url), vllm/MODEL, replay/FILE, simulated/soft.",
    ),
]
Criterion = Annotated[
    str | None,
    typer.Option(
        help='What makes a text better, to end "Which Summary is …": "more coherent"; or beginning with a verb: '
        '"continues the dialogue better".'
    ),
]
Kind = Annotated[str, typer.Option(help="What the texts are, as the judge is told: Summary, Story, Answer.")]
Heading = Annotated[
    str | None, typer.Option(help="What stands above the context: Article, Dialogue. Default: the name of its column.")
]
PromptName = Annotated[
    str | None,
    typer.Option(
        "--prompt",
        help="In place of --criterion: a file with a template of your own, with {first}, {second} and, if wanted, "
        f"{{context}}; or one of the paper's prompts, such as {next(iter(PAPER))}.",
    ),
]
Labels = Annotated[
    str | None, typer.Option(help="The two words that name the texts in a template of your own. Default: A,B")
]
Answer = Annotated[str | None, typer.Option(help="How the judge's answer begins, before the label. Default: the kind.")]
Options = Annotated[
    list[str] | None,
    typer.Option(
        "--option", "-o", help="An option of the judge, NAME=VALUE; may be repeated. docs/judges.md lists them."
    ),
]
BaseUrl = Annotated[str | None, typer.Option(help="For openai/ judges: the server, such as http://localhost:8000/v1.")]
Votes = Annotated[
    int | None,
    typer.Option(min=1, help="For openai/ judges without log-probabilities: how many answers to sample for a pair."),
]
Concurrency = Annotated[int | None, typer.Option(min=1, help="For openai/ judges: how many calls at a time.")]
Price = Annotated[
    str | None, typer.Option(help="For openai/ judges: dollars for a million tokens in and out, such as 0.15,0.60.")
]
Engine = Annotated[
    Literal["ray"] | None,
    typer.Option(
        help="ray: the judge runs in processes of its own, on this machine or on the Ray cluster at --ray-address."
    ),
]
RayAddress = Annotated[
    str | None,
    typer.Option(
        help="With --engine ray: HOST:PORT of the cluster's head, or auto for the cluster that this machine belongs "
        "to. Default: RAY_ADDRESS, else a Ray of this machine alone."
    ),
]
Replicas = Annotated[
    int | None,
    typer.Option("--judge-replicas", min=1, help="With --engine ray: how many judges work side by side. Default: 1"),
]
Gpus = Annotated[
    float | None, typer.Option("--judge-gpus", min=0, help="With --engine ray: GPUs that each judge takes. Default: 0")
]
Cpus = Annotated[
    float | None, typer.Option("--judge-cpus", min=0, help="With --engine ray: CPUs that each judge takes. Default: 1")
]
IdColumn = Annotated[str | None, typer.Option("--id", help="The column with the items' names. Default: id")]
TextColumn = Annotated[str | None, typer.Option("--text", help="The column with the texts. Default: text")]
ContextColumn = Annotated[
    str | None,
    typer.Option("--context", help="The column with what the judge reads before the texts. Default: context"),
]
ContextIdColumn = Annotated[
    str | None, typer.Option("--context-id", help="The column that names the context. Default: context_id")
]
GroupColumn = Annotated[
    str | None,
    typer.Option(
        "--group",
        help="The column with what items share, such as the system that wrote them: the items of one group inform "
        "each other's scores. Default: group, else the same id in other contexts.",
    ),
]
Scores = Annotated[
    list[str] | None,
    typer.Option("--scores", help="A column with people's scores, to compare the ranking with; may be repeated."),
]


def run_folder(path: Path) -> Path:
    """A run folder, named by itself or by the database in it; a ValueError where it is none."""
    database = database_of(path)
    if database is None or not database.is_file():
        raise ValueError(f"{path} is not a run folder: it has no {DATABASE}; comparo runs lists those that there are")
    return database.parent


def make_judge(
    name: str,
    items: Items,
    options: Iterable[str] | None,
    context: typer.Context,
    ray: Mapping[str, Any] | None,
    **named: Any,
) -> Judge:
    """The judge that the flags describe, ended with the command where it runs on Ray.

    A simulated judge's scores may be named after people's.
    """
    given = {option: value for option, value in named.items() if value is not None}
    for text in options or ():
        option, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"--option {text!r} is not NAME=VALUE")
        given[option.strip().replace("-", "_")] = _value(value.strip())
    if name.startswith("simulated/") and isinstance(given.get("scores"), str):
        wanted = given["scores"]
        if wanted not in items.scores:
            raise ValueError(f"the items have no scores {wanted!r}; they have {', '.join(items.scores) or 'none'}")
        labels = zip(items.contexts[items.context].tolist(), items.ids.tolist(), strict=True)
        given["scores"] = dict(zip(labels, items.scores[wanted].tolist(), strict=True))
    if ray is None:
        return load_judge(name, **given)
    return context.with_resource(ray_judge(name, given, **ray))


def _value(text: str) -> Any:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
