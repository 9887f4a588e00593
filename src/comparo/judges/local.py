"""local/…: a GGUF model on this machine, with no key and no server. local/smollm2 comes with its weights by pip.

SmolLM2 is a smoke-test judge: it shows that everything works, not which text is better. Two runtimes give the
probabilities of the next token: llama.cpp (xllamacpp, which installs with nothing to build) and transformers, several
times as fast where torch is there.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any, Literal, get_args
from urllib.request import Request, urlopen

from comparo.judges import hf
from comparo.judges.judgement import Judge, JudgeError, Judgement
from comparo.judges.labels import label_probability
from comparo.judges.models import find_model
from comparo.prompts import Prompt, Question

Runtime = Literal["auto", "llama.cpp", "transformers"]

SMALL = 500_000_000  # bytes: transformers unpacks the weights to eight times their size
WINDOW = 4096  # tokens
TOP, ALL = 64, 10_000_000  # tokens to hear about: the likeliest, or the whole vocabulary

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class LlamaCpp:
    """A model in llama.cpp, in this process; one prompt at a time, its beginning reused from the one before.

    >>> judge = load("smollm2", runtime="llama.cpp", window=512)
    >>> [answer] = judge.judge([Question(1, 2, first_text="Hi.", second_text="No.")], Prompt("{first}{second} A or B?"))
    >>> 0 < answer.p < 1
    True
    """

    name: str
    path: Path
    window: int
    server: Any = field(repr=False)
    key: str = field(repr=False)

    ahead = 16
    scales = True

    @property
    def settings(self) -> dict[str, Any]:
        """What changes an answer."""
        import xllamacpp

        size = self.path.stat().st_size
        version = xllamacpp.__version__
        return {"file": self.path.name, "bytes": size, "runtime": f"xllamacpp {version}", "window": self.window}

    def judge(self, questions: Iterable[Question], prompt: Prompt) -> Iterator[Judgement]:
        """The answers, `ahead` questions at a time, ordered so that neighbours begin alike."""
        questions = iter(questions)
        room = (
            self.window - self._tokens(self._post("/apply-template", {"messages": _messages("", prompt)})["prompt"]) - 1
        )
        while chunk := list(islice(questions, self.ahead)):
            for question in sorted(chunk, key=lambda q: (str(q.context), q.context_text or "", q.first_text)):
                yield self._answer(question, prompt, room)

    def _answer(self, question: Question, prompt: Prompt, room: int) -> Judgement:
        start = time.perf_counter()
        text, cut = prompt.fit(question, room, lambda text: len(text) if len(text) <= room else self._tokens(text))
        for top in (TOP, ALL):
            reply = self._complete(text, prompt, top)
            if "choices" not in reply:
                error = f"llama.cpp: {reply.get('message', reply)}"
                return Judgement(question, error=error, cut=cut, seconds=time.perf_counter() - start)
            token = reply["choices"][0]["logprobs"]["content"][0]
            likeliest = ((entry["token"], entry["logprob"]) for entry in token["top_logprobs"])
            if found := label_probability(likeliest, prompt.labels):
                break
        said = {"reply": token["token"], "cut": cut, "seconds": time.perf_counter() - start, "cost": 0.0}
        usage = {"tokens_in": reply["usage"]["prompt_tokens"], "tokens_out": reply["usage"]["completion_tokens"]}
        if found is None:
            labels = " or ".join(map(repr, prompt.labels))
            return Judgement(question, error=f"the model has no token for {labels}; use other labels", **said, **usage)
        return Judgement(question, p=found[0], mass=found[1], **said, **usage)

    def _complete(self, text: str, prompt: Prompt, top: int) -> dict[str, Any]:
        reply: dict[str, Any] = self.server.handle_chat_completions(
            {
                "messages": _messages(text, prompt),
                "max_tokens": 1,
                "temperature": 0,
                "logprobs": True,
                "top_logprobs": top,
                "cache_prompt": True,
            }
        )
        return reply

    def _tokens(self, text: str) -> int:
        return len(self._post("/tokenize", {"content": text})["tokens"])

    def _post(self, route: str, body: dict[str, Any]) -> Any:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self.key}"}
        with urlopen(Request(self.server.listening_address + route, json.dumps(body).encode(), headers)) as answer:
            return json.load(answer)


def load(
    model: str, *, runtime: Runtime = "auto", window: int | None = None, threads: int | None = None, fetch: bool = False
) -> Judge:
    """local/smollm2, local/PATH.gguf, or one of the larger models by name (`fetch` downloads it).

    `runtime` auto takes transformers for a small model where torch, transformers, gguf and accelerate are installed,
    else llama.cpp. `window` is how many tokens a prompt may have, 4096 or as many as the model was made for.
    """
    if runtime not in get_args(Runtime):
        raise ValueError(f"runtime = {runtime!r} is not one of {', '.join(get_args(Runtime))}")
    path = find_model(model, fetch)
    name = f"local/{model or 'smollm2'}"
    if name == "local/smollm2":
        logger.warning("local/smollm2 is a smoke-test judge: it shows that all works, not which text is better")
    unpacked = all(find_spec(package) for package in ("torch", "transformers", "gguf", "accelerate"))
    if runtime == "transformers" or (runtime == "auto" and unpacked and path.stat().st_size < SMALL):
        return replace(hf.load(str(path), window=window or WINDOW), name=name)
    return _llama_cpp(name, path, window or WINDOW, threads or os.cpu_count() or 1)


def _llama_cpp(name: str, path: Path, window: int, threads: int) -> LlamaCpp:
    try:
        import xllamacpp
    except ImportError as error:
        raise ImportError("local/ judges need llama.cpp: pip install 'comparo[local]'") from error
    parameters, key = xllamacpp.CommonParams(), secrets.token_hex()
    parameters.model.path = str(path)
    parameters.n_ctx, parameters.n_parallel, parameters.warmup = window, 1, False
    parameters.cpuparams.n_threads = threads
    # On CPUs flash attention is no faster, and p would depend, by up to 0.03, on what was cached before.
    parameters.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    parameters.api_keys = [key]
    parameters.verbosity = -1
    try:
        server = xllamacpp.Server(parameters)
    except RuntimeError as error:
        raise JudgeError(f"llama.cpp cannot load {path}: is it a whole GGUF file?") from error
    server.handle_completions({"prompt": "A", "max_tokens": 1})  # a server that ends before its first answer may hang
    return LlamaCpp(name, path, window, server, key)


def _messages(text: str, prompt: Prompt) -> list[dict[str, str]]:
    question = [{"role": "user", "content": text}]
    return [*question, {"role": "assistant", "content": prompt.answer}] if prompt.answer else question
