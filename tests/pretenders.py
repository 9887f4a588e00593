"""Models that the pages name, in small: servers that answer as the providers' references say, and a tiny network.

All prefer the text with the higher number ("Story number 7."), so that runs end as they do with a good judge.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import gemini
from batch_server import BatchServer, Behaviour
from claude import ClaudeBatchServer, verdict
from letters import save_letters
from openai_models import LUNA, OLDER, Model, preference
from servers import Api, Reply, Request, is_probe, numbers_in, refusal, tokens

SOL = Model("gpt-6.1-sol", LUNA.efforts, "medium")
QWEN = replace(OLDER, name="Qwen2.5-7B")
# OpenAI's models that log-probabilities or a stated effort can be had of (docs/judges.md), and servers of one's own.
OPENAI = {model.name: model for model in (LUNA, SOL, QWEN)} | {"MODEL": LUNA, "qwen": QWEN}
LINE = re.compile(r"^(\w+): A or B$", re.MULTILINE)  # how the answers by several criteria are asked for


def openai(request: Request) -> Reply:
    """The answer of the model that is named, to one criterion, to several, and to the request for a grade."""
    model, said = OPENAI.get(request.body["model"]), request.body["messages"][0]["content"]
    if model is None:
        return refusal(404, f"The model `{request.body['model']}` does not exist")
    if said.startswith("Count") and model is QWEN:  # it goes on with a reply that was begun
        return tokens({" four": 0.99, "One": 0.01})
    if "Rate the" in said:
        grade = 1 + numbers_in(said)[0] % 5
        return tokens({str(grade): 0.6} | {str(other): 0.1 for other in range(1, 6) if other != grade})
    if criteria := LINE.findall(said):
        p = preference(said)
        likely = {"A": p, "B": 1 - p} if p > 0.5 else {"B": 1 - p, "A": p}
        return tokens(*(position for name in criteria for position in ({f"\n{name}: ": 1.0}, likely)))
    short = {"max_tokens": 8} if model is QWEN else {}  # a letter is one token; these models count eight for a verdict
    return model(replace(request, body=request.body | short))


def claude(request: Request) -> Reply:
    """A verdict, or a grade, in the structured output that was asked for."""
    said, schema = request.body["messages"][0]["content"], request.body["output_config"]["format"]["schema"]
    ((name, allowed),) = schema["properties"].items()
    assert name == "better"
    p = 0.9 if is_probe(request.body) else preference(said)
    choices = allowed["enum"]
    return verdict(choices[min(int((1 - p) * len(choices)), len(choices) - 1)])


def google(request: Request) -> Reply:
    """As many verdicts as were asked for."""
    said, asked = request.body["contents"][0]["parts"][0]["text"], request.body["generationConfig"]
    ((_, allowed),) = asked["responseJsonSchema"]["properties"].items()
    p = 0.9 if is_probe(request.body) else preference(said)
    return gemini.verdicts(*[allowed["enum"][0 if p > 0.5 else 1]] * asked.get("candidateCount", 1))


@contextmanager
def providers() -> Iterator[dict[str, str]]:
    """Servers of all providers, with batches; the variables by which they are found, and their keys."""
    with ExitStack() as stack:
        ours = stack.enter_context(BatchServer(Behaviour(answer=openai)))
        anthropic = stack.enter_context(ClaudeBatchServer())
        anthropic.does.answer = claude
        google_api = stack.enter_context(Api(google))
        yield {
            "OPENAI_BASE_URL": ours.url,
            "OPENAI_API_KEY": "sk-test-0123456",
            "ANTHROPIC_BASE_URL": anthropic.url.removesuffix("/v1"),
            "ANTHROPIC_API_KEY": "sk-ant-test",
            "GOOGLE_GEMINI_BASE_URL": google_api.url.removesuffix("/v1"),
            "GEMINI_API_KEY": "test-key",
        }


def tiny_model(folder: Path) -> Path:
    """A network of two layers that answers A or B to everything, in the layout of the Hugging Face hub.

    One number of its state is the same after every text, and only the tokens A and B listen to that.
    """
    import torch
    import transformers

    vocabulary = save_letters(folder)
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=len(vocabulary), hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=4096, initializer_range=0.2, tie_word_embeddings=False,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config)
    with torch.no_grad():
        model.model.embed_tokens.weight[:, 0] = 20.0
        model.lm_head.weight[:, 0] = 0.0
        for label in "AB":
            model.lm_head.weight[vocabulary[label], 0] = 3.0
    model.save_pretrained(folder)
    return folder


class Crowded:
    """A simulated judge whose letters crowd: its noise, by number of texts, grows with it."""

    name, settings, ahead, lines_up, cacheable = "crowded/soft", {}, 8, True, False

    def __init__(self, judge, noise):
        self.alone, self.noise = judge, noise

    def judge(self, questions, prompt):
        for question in questions:
            yield from replace(self.alone, noise=self.noise[len(question.items)]).judge([question], prompt)
