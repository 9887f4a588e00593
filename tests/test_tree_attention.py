"""Questions in a tree: the layout by what each token reads, the attention by a dense mask, the choice by its cost."""

import math
import random
from importlib import import_module
from pathlib import Path

import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st

from comparo import Prompt, Question
from comparo.judges import hf
from inside import Chat, Encoded
from test_hf_judge import DECODERS, PROMPT, answers, asked, make_tokenizer, some_questions

PromptBatcher, fuse = hf.network.PromptBatcher, hf.network.fuse
attend, grow, packs, place = hf.tree.attend, hf.tree.grow, hf.tree.packs, hf.tree.place
some_rows = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=12), min_size=1, max_size=12).map(sorted)


def visible(tree: hf.tree.Tree) -> torch.Tensor:
    """Which token reads which, (T, T)."""
    mask = torch.zeros(len(tree.tokens), len(tree.tokens), dtype=torch.bool)
    for reading in tree.readings:
        queries, keys = reading.query_bounds, reading.key_bounds
        assert len(queries) == len(keys)
        for group in range(len(queries) - 1):
            for query in range(queries[group], queries[group + 1]):
                seen = slice(keys[group], query + 1 if reading.causal else keys[group + 1])
                assert not mask[query, seen].any()  # nothing is read twice
                mask[query, seen] = True
    return mask


@settings(deadline=None)
@given(some_rows)
def test_the_end_of_each_row_reads_that_row_and_nothing_else(rows):
    tree = grow(rows)
    mask = visible(tree)
    assert len(tree.ends) == len(rows)
    for row, end in zip(rows, tree.ends, strict=True):
        seen = mask[end].nonzero().flatten().tolist()
        spelled = sorted((tree.positions[token], tree.tokens[token]) for token in seen)
        assert spelled == list(enumerate(row))
    assert len(tree.tokens) <= sum(map(len, rows))


@settings(deadline=None)
@given(some_rows, st.integers(1, 30), st.one_of(st.none(), st.integers(1, 4)))
def test_packs_hold_all_rows_in_their_order_within_the_limits(rows, tokens, most):
    parts = list(packs(rows, tokens, most))
    assert [number for part in parts for number in part] == list(range(len(rows)))
    for part in parts:
        beginnings = {tuple(rows[number][:length]) for number in part for length in range(1, len(rows[number]) + 1)}
        assert len(beginnings) <= tokens or len(part) == 1
        assert most is None or len(part) <= most


def summeval(count: int) -> list[Encoded]:
    """Questions with SummEval's numbers of tokens, chosen from the 240 of one context."""
    draw = random.Random(count)
    text = [[draw.randrange(1000) for _ in range(length)] for length in [500, *[80] * 16, *[80] * 16, 30]]
    context, question = text[0], text[-1]
    pairs = [(first, second) for first in range(16) for second in range(16) if first != second]
    return [
        Encoded(Question(*pair), [*context, *text[1 + pair[0]], *text[17 + pair[1]], *question])
        for pair in draw.sample(pairs, count)
    ]


def test_each_shared_token_stands_once():
    tree = grow(sorted(row.ids for row in summeval(240)))
    assert len(tree.tokens) == 500 + 16 * 80 + 240 * 110 == 28_180
    assert max(tree.positions) == 689
    assert len(tree.readings) == 4


@pytest.mark.parametrize(
    ("parameters", "count", "trees"), [(7e9, 2, True), (7e9, 240, True), (5e8, 16, False), (5e8, 32, True)]
)
def test_a_tree_is_taken_where_it_costs_less(parameters, count, trees):
    """As measured on an H200: launches hide what a tree of 16 questions saves a model of 0.5B."""
    batches = PromptBatcher(None, 32_768, pass_tokens=5e12 / parameters)
    assert [batch.tree is not None for batch in batches.trees(summeval(count))] == [trees]
    assert all(batch.tree for batch in batches.trees(summeval(count), always=True))


def test_rows_of_very_different_lengths_are_not_filled_up():
    rows = [Encoded(Question(1, 2), [number] * length) for number, length in enumerate([900, 80, 90, 100])]
    [batch] = PromptBatcher(None, 32_768, pass_tokens=700).trees(rows)
    assert batch.tokens == 1170
    [batch] = PromptBatcher(None, 32_768, pass_tokens=700).trees(rows[1:])
    assert batch.tree is None
    [batch] = PromptBatcher(None, 32_768, pass_tokens=9000).trees(rows)
    assert batch.tree is None


@settings(deadline=None)
@given(some_rows, st.sampled_from([1, 2, 4]), st.integers(0, 99))
def test_readings_merge_into_one_attention(rows, groups, seed):
    tree, heads, size = grow(rows), 4, 8
    draw = torch.Generator().manual_seed(seed)
    query = torch.randn(1, heads, len(tree.tokens), size, generator=draw)
    key, value = (torch.randn(1, groups, len(tree.tokens), size, generator=draw) for _ in range(2))
    output, _ = attend(None, query, key, value, scaling=0.7, readings=place(tree.readings, query.device))
    key, value = (states.double().repeat_interleave(heads // groups, dim=1) for states in (key, value))
    scores = (0.7 * query.double() @ key.transpose(2, 3)).masked_fill(~visible(tree), -math.inf)
    expected = (scores.softmax(dim=-1) @ value).transpose(1, 2)
    torch.testing.assert_close(output.double(), expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    "said", [{"sliding_window": 4}, {"softcap": 30.0}, {"s_aux": 1}, {"is_causal": False}, {"readings": None}]
)
def test_an_attention_that_is_more_than_its_readings_is_refused(said):
    states = torch.ones(1, 1, 2, 8)
    options = {"readings": place(grow([[1, 2]]).readings, states.device), "dropout": 0.0, "sliding_window": None}
    attend(None, states, states, states, None, **options)
    with pytest.raises(hf.tree.UnreadableError, match="attention"):
        attend(None, states, states, states, None, **(options | said))
    with pytest.raises(hf.tree.UnreadableError, match="mask"):
        attend(None, states, states, states, states, **options)


def make_judge(configuration, **options):
    torch.manual_seed(1)
    model = transformers.AutoModelForCausalLM.from_config(configuration)
    return hf.judge_with(model, make_tokenizer(), "tiny", **options)


@pytest.mark.parametrize(
    ("name", "reads"),
    [
        *((name, True) for name in ("llama", "grouped", "tied", "mistral", "scaled", "positions")),
        *((name, False) for name in ("window", "capped", "recurrent")),
    ],
)
def test_models_whose_attention_is_more_keep_their_way(name, reads, caplog):
    with caplog.at_level("INFO"):
        assert make_judge(DECODERS[name](), reuse="tree")._trees is reads
    assert ("as a tree" in caplog.text) is not reads
    assert make_judge(DECODERS[name]())._trees is False  # on a processor, beginnings are kept


def test_a_tree_that_gives_other_logits_is_not_used(monkeypatch, caplog):
    by_hand = hf.tree._by_hand

    def careless(q, k, v, piece, scale):
        return by_hand(q, k, v, piece, scale if piece.causal else 0.5 * scale)

    monkeypatch.setattr(hf.tree, "_by_hand", careless)
    with caplog.at_level("INFO"):
        judge = make_judge(DECODERS["llama"](), reuse="tree")
    assert not judge._trees
    assert "logits would differ" in caplog.text
    monkeypatch.setattr(hf.tree, "_by_hand", lambda *_: exec("raise RuntimeError"))
    assert not judge._network.reads_trees()
    assert judge._network._model.config._attn_implementation == "sdpa"


def test_a_tree_of_several_contexts_is_one_pass():
    judge, read = make_judge(DECODERS["mistral"](), reuse="tree"), []
    unseen = Prompt("Response A: {first} Response B: {second}", answer="Response")
    questions = some_questions(18, contexts=3)
    plain = hf.judge_with(judge._network._model, make_tokenizer(), "tiny", batch=1, reuse=False)
    for prompt in (PROMPT, unseen):
        expected = asked(plain, questions, prompt)
        hook = judge._network._model.register_forward_pre_hook(
            lambda _model, _arguments, options: read.append(options["input_ids"].shape), with_kwargs=True
        )
        assert asked(judge, questions, prompt) == pytest.approx(expected, abs=1e-5)
        hook.remove()
    rows = [len(answer.ids) for answer in Chat(make_tokenizer()).encode(questions, PROMPT)]
    assert [shape[0] for shape in read] == [1, 1]
    assert read[0][1] < 0.7 * sum(rows)


def test_the_next_questions_are_prepared_while_a_batch_runs(monkeypatch):
    judge, pulled = make_judge(DECODERS["llama"](), batch=2), []
    expected = asked(judge, some_questions(20))
    monkeypatch.setattr(hf.network.Network, "overlaps", True)
    stream = judge.judge((pulled.append(question) or question for question in some_questions(20)), PROMPT)
    for _ in range(6):
        next(stream)
    assert len(pulled) == 8
    next(stream)  # of the last of four batches, while the first of the next four is at work
    assert len(pulled) == 16
    assert len(list(stream)) == 13
    assert asked(judge, some_questions(20)) == pytest.approx(expected, abs=1e-6)
    assert all(answer.seconds > 0 for answer in answers(judge, some_questions(20)))


@pytest.mark.parametrize(("name", "norms"), [("llama", 5), ("tied", 5), ("capped", 0), ("positions", 0)])
def test_norms_in_one_kernel_give_the_same(name, norms):
    model = transformers.AutoModelForCausalLM.from_config(DECODERS[name]()).eval()
    for weights in model.parameters():
        if weights.dim() == 1:
            torch.nn.init.normal_(weights, 1.0, 0.3)
    with torch.inference_mode():
        before = model(torch.arange(3, 40)[None]).logits
        assert fuse(model) == norms
        torch.testing.assert_close(model(torch.arange(3, 40)[None]).logits, before, atol=1e-5, rtol=1e-4)
        if norms:
            assert model.model.norm(torch.ones(1, 64, dtype=torch.float64)).dtype == torch.float64
    assert fuse(model) == 0


def test_the_benchmark_asks_for_a_gpu_and_has_summevals_shape(monkeypatch, capsys):
    monkeypatch.syspath_prepend(Path(__file__).parents[1])
    benchmark = import_module("benchmarks.gpu_judge")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr("sys.argv", ["gpu_judge"])
    benchmark.main()
    assert "needs a GPU" in capsys.readouterr().out
    questions = list(benchmark.questions(240, shared=True))
    rows = sorted(row.ids for row in Chat(benchmark.make_tokenizer()).encode(questions, benchmark.PROMPT))
    assert {len(row) for row in rows} == {690}
    assert len(grow(rows).tokens) == 28_180
