"""vllm/MODEL: a model in vLLM's offline engine, the fastest way on a GPU to many answers from one model.

The engine batches prompts and caches their prefixes, so the questions are only sorted by prefix. It returns the 20
likeliest next tokens; a label that is not among them gets the largest probability that it can have. If the labels have
several tokens, a question is asked once per beginning of a label.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from comparo.data.prompts import Prompt, Question
from comparo.errors import JudgeError, pip_install
from comparo.judges.chat import Chat, Encoded, answers_of, digest_of, first_line
from comparo.judges.labels import Spellings
from comparo.judges.protocol import Judgement

LIKELIEST = 20  # tokens; vLLM's default limit, max_logprobs


def load(
    model: str,
    *,
    dtype: str = "auto",
    tensor_parallel_size: int = 1,
    gpu_memory_utilization: float = 0.9,
    window: int | None = None,
    revision: str | None = None,
) -> VllmJudge:
    """A judge that runs a model by vLLM.

    Parameters
    ----------
    model
        A name on the Hub or a folder.
    dtype, tensor_parallel_size, gpu_memory_utilization, revision
        vLLM's own options.
    window
        vLLM's `max_model_len`: how many tokens the model may read, by default as many as it can.

    Raises
    ------
    JudgeError
        vLLM cannot load the model.
    ImportError
        vLLM is not installed.

    Examples
    --------
        judge = load("Qwen/Qwen2.5-7B-Instruct", gpu_memory_utilization=0.8)
    """
    try:
        import vllm
        from huggingface_hub.errors import HFValidationError
    except ImportError as problem:
        raise ImportError(f"vllm/ judges need vLLM: {pip_install('vllm')}") from problem
    try:
        engine = vllm.LLM(
            model,
            dtype=dtype,
            tensor_parallel_size=tensor_parallel_size,
            gpu_memory_utilization=gpu_memory_utilization,
            max_model_len=window,
            revision=revision,
            enable_prefix_caching=True,
            # Logits in half precision change in steps as large as a small model's preference. vLLM has the option
            # from 0.26 on; before, it warns and uses the model's type.
            hf_overrides={"head_dtype": "float32"},
        )
    except (OSError, HFValidationError) as problem:
        where = f"vLLM cannot load {model}: {first_line(problem)}"
        raise JudgeError(f"{where} (check its name and the network)") from problem
    config = engine.llm_engine.model_config
    settings = {
        "model": model,
        "dtype": str(config.dtype).removeprefix("torch."),
        "window": config.max_model_len,
        "revision": config.revision,
        "vllm": vllm.__version__,
    }
    # The window includes the answer's token.
    chat = Chat(engine.get_tokenizer(), config.max_model_len - 1)
    sampling = vllm.SamplingParams(max_tokens=1, temperature=0, logprobs=LIKELIEST)
    return VllmJudge(f"vllm/{model}", settings, chat, engine, sampling, digest_of(model))


@dataclass(frozen=True)
class VllmJudge:
    """A judge that runs a model in vLLM; made by `load`."""

    name: str
    settings: Mapping[str, Any]
    _chat: Chat = field(repr=False)
    _engine: Any = field(repr=False)
    _sampling: Any = field(repr=False)
    weights: str | None = None

    ahead = 512  # twice the 256 sequences that vLLM computes at once by default, max_num_seqs
    several = lines_up = True

    def judge(self, questions: Iterable[Question], prompt: Prompt) -> Iterator[Judgement]:
        """Yield an answer to every question; several criteria share the texts in vLLM's prefix cache."""
        return answers_of(self._chat, questions, prompt, self.ahead, self._answer)

    def _answer(self, rows: list[Encoded], labels: Spellings, prompt: Prompt) -> Iterator[Judgement]:
        """Yield an answer per row, read after every node; a row that the engine refuses is a failed judgement."""
        started = time.perf_counter()
        asked = [{"prompt_token_ids": [*row.ids, *node]} for row in rows for node in labels.nodes]
        try:
            outputs = self._engine.generate(asked, self._sampling, use_tqdm=False)
        except (TypeError, ValueError) as problem:
            if len(rows) > 1:
                for row in rows:
                    yield from self._answer([row], labels, prompt)
                return
            error = f"vLLM refused it: {first_line(problem)}"
            yield from (Judgement(row.question, error=error, cut=row.cut) for row in rows)
            return
        seconds = (time.perf_counter() - started) / max(len(rows), 1)
        remaining = iter(outputs)
        for row in rows:
            read = {}
            for node, output in zip(labels.nodes, remaining, strict=False):
                logprobs = output.outputs[0].logprobs[0]
                read[node] = [(token, entry.logprob) for token, entry in logprobs.items()]
            yield replace(self._chat.read(read, row, prompt), seconds=seconds)
