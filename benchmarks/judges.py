"""How fast judges answer: the embedded model, and the API judge against a server that takes its time."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec

from comparo.data.prompts import Question, criterion_prompt
from comparo.judges import load_judge

LATENCY = 0.05  # seconds that the server takes to answer


def questions(count: int) -> Iterator[Question]:
    """Questions of about 250 words."""
    text = "The cat sat on the mat and watched the rain. " * 12
    return (Question(2 * k, 2 * k + 1, 0, f"{k} {text}", f"{text} {k}") for k in range(count))


def embedded() -> None:
    """Comparisons a second on prompts like TopicalChat's, of about 370 tokens, each runtime that is installed."""
    prompt = criterion_prompt("continues the dialogue better", kind="Response", context="Dialogue")
    turn = "i heard that the new film of the studio is out , have you seen any of their work before ? \n "
    answers = [f"i have , and {name} was the one i liked best , it is so well made and so sad ." for name in "abcdef"]
    pairs = [(first, second) for first in answers for second in answers if first != second]
    print("\nEmbedded judge, prompts of about 370 tokens, comparisons a second")
    for runtime, needs in (("llama.cpp", "xllamacpp"), ("transformers", "torch")):
        if find_spec(needs) is None:
            print(f"  {runtime}: not installed")
            continue
        judge = load_judge("local/smollm2", runtime=runtime)
        rates = []
        for shared, count in ((False, 8), (True, 30)):
            asked = [
                Question(first, second, 0 if shared else k, first, second, f"{0 if shared else k} {turn * 12}")
                for k, (first, second) in enumerate(pairs[:count])
            ]
            begin = time.perf_counter()
            assert not any(answer.failed for answer in judge.judge(asked, prompt))
            rates.append(count / (time.perf_counter() - begin))
        alone, together = rates
        print(f"  {runtime}: every context another {alone:.2f}, one context {together:.2f} ({together / alone:.1f} x)")


def main() -> None:
    embedded()
    api()


def api() -> None:
    """Comparisons a second at concurrency 1 and 32, from a server in a process of its own."""
    serving = [sys.executable, "-c", "from benchmarks.judges import serve; serve()"]
    os.environ.setdefault("OPENAI_API_KEY", "none")
    print(f"\nAPI judge, a loopback server that answers after {1000 * LATENCY:.0f} ms")
    with subprocess.Popen(serving, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url = f"http://127.0.0.1:{server.stdout.readline().strip()}/v1"
        rates = []
        for concurrency, count in ((1, 100), (32, 2000)):
            judge = load_judge("openai/any", base_url=url, concurrency=concurrency)
            prompt = criterion_prompt("more coherent", kind="Summary")
            next(judge.judge(questions(1), prompt))  # the library is loaded, the server known
            begin, busy = time.perf_counter(), time.process_time()
            answers = list(judge.judge(questions(count), prompt))
            seconds, busy = time.perf_counter() - begin, time.process_time() - busy
            assert len(answers) == count
            assert not any(answer.failed for answer in answers)
            rates.append(count / seconds)
            print(
                f"  concurrency {concurrency:2}: {rates[-1]:6.1f} comparisons a second, "
                f"{1000 * busy / count:.2f} ms of CPU time each"
            )
        server.terminate()
    print(f"  ratio {rates[1] / rates[0]:.1f}")


class Answers(asyncio.Protocol):
    """One connection: the same answer to every request, after LATENCY."""

    def __init__(self, answer: bytes) -> None:
        self.answer, self.received = answer, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data
        head, ended, rest = self.received.partition(b"\r\n\r\n")
        size = int(head.lower().partition(b"content-length:")[2].split(maxsplit=1)[0]) if ended else 0
        if ended and len(rest) >= size:
            self.received = rest[size:]
            asyncio.get_running_loop().call_later(LATENCY, self.transport.write, self.answer)


def serve() -> None:
    """Serve on a free port and print it."""
    likeliest = [("A", -0.5), ("B", -1.2), *((f"token {rank}", -rank) for rank in range(3, 21))]
    top = [{"token": token, "logprob": logprob, "bytes": [*token.encode()]} for token, logprob in likeliest]
    content = [{"token": "Summary", "logprob": -0.5, "top_logprobs": top[2:]}, {**top[0], "top_logprobs": top}]
    choice = {"index": 0, "message": {"content": "Summary A"}, "logprobs": {"content": content}}
    body = json.dumps({"choices": [choice], "usage": {"prompt_tokens": 300, "completion_tokens": 2}}).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"

    async def listen() -> None:
        server = await asyncio.get_running_loop().create_server(lambda: Answers(head.encode() + body), "127.0.0.1", 0)
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()

    asyncio.run(listen())


if __name__ == "__main__":
    main()
