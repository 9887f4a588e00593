"""Labels of several tokens: scored by their sequence, by every judge and in every way that a judge reads."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import transformers
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from comparo import load_judge
from comparo.judges import hf
from comparo.judges.vllm import VllmJudge
from inside import DELIMITER, Chat, Rest, TextSpellings, criterion_prompt, label_probability, read_logprobs, soft_rows
from servers import Api
from servers import tokens as reply_tokens
from split import one_short
from test_hf_judge import DECODERS, PROMPT, SMALL, answers, next_logs, some_questions, trained

QWEN = Regex(r"\p{N}| ?[^\s\p{N}]+|\s+(?!\S)|\s+")  # a digit is a piece of its own, and no space goes with it


def byte_level() -> PreTrainedTokenizerFast:
    """As of Qwen, Llama 3 and SmolLM: " A" is "ĠA", and " 1" is "Ġ" and "1"."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(QWEN, "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    return trained(tokenizer, pre_tokenizers.ByteLevel.alphabet())


def sentence_piece() -> PreTrainedTokenizerFast:
    """As of Llama 2 and Mistral: " A" is "▁A", and " 1" is "▁" and "1"."""
    tokenizer = Tokenizer(models.BPE(unk_token="<pad>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Metaspace(prepend_scheme="first"), pre_tokenizers.Digits(individual_digits=True)]
    )
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="first")
    return trained(tokenizer, [chr(code) for code in range(32, 127)])


TOKENIZERS = {"bytes": byte_level(), "pieces": sentence_piece()}


def make_model(name: str, **biases: float):
    """A model with random weights, whose head prefers some tokens of the byte-level tokenizer."""
    torch.manual_seed(3)
    if name == "t5":
        config = transformers.T5Config(
            vocab_size=420, d_model=64, d_kv=16, d_ff=96, num_layers=2, num_heads=4, decoder_start_token_id=0
        )
        return transformers.T5ForConditionalGeneration(config).eval()
    config = DECODERS[name]()
    config.initializer_range = 0.3 if name == "recurrent" else 0.1
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    if biases:
        bias = torch.zeros(SMALL["vocab_size"])
        for token, height in biases.items():
            bias[TOKENIZERS["bytes"].get_vocab()[token]] = height
        model.get_output_embeddings().bias = torch.nn.Parameter(bias)
    return model


def by_hand(model, tokenizer, question, spellings: list[list[str]]) -> float:
    """The probability of a label with these spellings, each a list of tokens, multiplied one by one."""
    total = 0.0
    for spelling in spellings:
        ids = tokenizer.convert_tokens_to_ids(spelling)
        logs = [next_logs(model, tokenizer, question, spelling[:k])[ids[k]] for k in range(len(ids))]
        total += math.exp(sum(logs))
    return total


SPACE = {"bytes": "Ġ", "pieces": "▁"}


def expected(model, kind, questions, spelled) -> np.ndarray:
    rows = []
    for question in questions:
        first, second = (by_hand(model, TOKENIZERS[kind], question, spellings) for spellings in spelled)
        rows.append((first / (first + second), first + second))
    return np.array(rows)


def test_labels_that_a_model_cannot_tell_apart_are_refused():
    with pytest.raises(ValueError, match="'漢' and '字'"):  # neither is in the vocabulary
        Chat(TOKENIZERS["pieces"]).spellings(replace(PROMPT, labels=("漢", "字")))


@pytest.mark.parametrize("kind", TOKENIZERS)
@pytest.mark.parametrize("name", ["tied", "window", "capped", "recurrent", "t5"])
def test_digits_after_a_space_are_scored_by_both_tokens_in_every_way_of_reading(name, kind):
    tokenizer, space = TOKENIZERS[kind], SPACE[kind]
    model, questions = make_model(name), some_questions(7)
    want = expected(model, kind, questions, [[["1"], [space, "1"]], [["2"], [space, "2"]]])
    assert np.ptp(np.log(want[:, 0])) > 0.1
    check_every_way(model, tokenizer, questions, replace(PROMPT, labels=("1", "2")), want)


def check_every_way(model, tokenizer, questions, prompt, want):
    ways = [{"reuse": False, "batch": 1}, {"reuse": False}, {"reuse": True, "batch": 3}, {"reuse": "tree"}]
    for options in ways:
        judge = hf.judge_with(model, tokenizer, "tiny", **options)
        got = np.array([(answer.p, answer.mass) for answer in answers(judge, questions, prompt)])
        np.testing.assert_allclose(got[:, 0], want[:, 0], atol=1e-4, err_msg=str(options))
        np.testing.assert_allclose(got, want, rtol=1e-3, err_msg=str(options))


@pytest.mark.parametrize(
    ("labels", "spelled"),
    [
        (("house sea", "cat cat"), [[["Ġhouse", "Ġsea"]], [["Ġcat", "Ġcat"]]]),  # apart from the first token
        (("the cat", "the sea"), [[["Ġthe", "Ġcat"]], [["Ġthe", "Ġsea"]]]),  # alike up to the second
        (
            ("sea 2", "Cat"),  # three tokens, and one or several
            [[["Ġsea", "Ġ", "2"]], [["Ġcat"], ["cat"], ["Ġ", "Ġcat"], ["Ġ", "cat"], ["Ġ", "C", "at"]]],
        ),
    ],
)
@pytest.mark.parametrize("name", ["grouped", "t5"])
def test_words_are_scored_by_all_their_tokens(name, labels, spelled):
    tokenizer = TOKENIZERS["bytes"]
    model, questions = make_model(name), some_questions(7)
    want = expected(model, "bytes", questions, spelled)
    assert np.ptp(np.log(want[:, 0])) > 0.1
    check_every_way(model, tokenizer, questions, replace(PROMPT, labels=labels), want)


def test_a_label_that_another_goes_on_from_does_not_count_it():
    tokenizer = TOKENIZERS["bytes"]
    model, questions = make_model("llama"), some_questions(5)
    rows = []
    for question in questions:
        one = by_hand(model, tokenizer, question, [["1"], ["Ġ", "1"]])
        ten = by_hand(model, tokenizer, question, [["Ġ", "1", "0"]])
        rows.append(((one - ten) / one, one))
    check_every_way(model, tokenizer, questions, replace(PROMPT, labels=("1", "10")), np.array(rows))


def test_the_reply_is_what_the_model_would_say_as_far_as_it_was_read():
    for space, reply, mass in ((90.0, "  ", 0.0), (0.0, "1", 1.0)):
        judge = hf.judge_with(make_model("llama", Ġ=space, **{"1": 60.0}), TOKENIZERS["bytes"], "tiny")
        [answer] = judge.judge(some_questions(1), replace(PROMPT, labels=("1", "2")))
        assert (answer.reply, answer.tokens_out) == (reply, len(reply))
        assert answer.mass == pytest.approx(mass, abs=1e-6)


@pytest.mark.parametrize(
    ("kind", "answer", "labels", "whole"),
    [
        ("bytes", "Response", ("A", "B"), [["ĠA"], ["ĠB"]]),
        ("bytes", "Response", ("1", "2"), [["Ġ", "1"], ["Ġ", "2"]]),
        ("bytes", "Response ", ("1", "2"), [["1"], ["2"]]),
        ("bytes", "Response ", ("A", "B"), [["A"], ["B"]]),
        ("bytes", "", ("1", "2"), [["1"], ["2"]]),
        ("bytes", "", ("ä", "ö"), [["Ã", "¤"], ["Ã", "¶"]]),
        ("pieces", "Response", ("1", "2"), [["▁", "1"], ["▁", "2"]]),
        ("pieces", "Response", ("10", "9"), [["▁", "1", "0"], ["▁", "9"]]),
    ],
)
def test_a_label_is_the_tokens_that_it_adds_to_the_answer(kind, answer, labels, whole):
    tokenizer = TOKENIZERS[kind]
    spellings = Chat(tokenizer).spellings(replace(PROMPT, answer=answer, labels=labels))
    assert [tokenizer.convert_ids_to_tokens(list(path)) for path in spellings.whole] == whole
    assert {path: number for number, path in enumerate(spellings.whole)}.items() <= spellings.ends.items()


def test_the_tokens_of_a_label_have_room_in_the_window():
    tokenizer, prompt = TOKENIZERS["bytes"], replace(PROMPT, labels=("1", "2"))
    [question] = some_questions(1, contexts=1)
    question = replace(question, context_text="old house " * 300)
    [short], [long] = (Chat(tokenizer, 100).encode([question], wording) for wording in (PROMPT, prompt))
    assert len(short.ids) == 100
    assert [len(sequence) for sequence in long.sequences] == [100]


@pytest.mark.parametrize(
    ("read", "labels", "p", "mass"),
    [
        ({(): [("A", 0.5), (" a", 0.1), ("B", 0.2), ("C", 0.2)]}, ("A", "B"), 0.75, 0.8),
        ({(): [(" ", 0.8), ("1", 0.1)], (" ",): [("1", 0.5), ("2", 0.25)]}, ("1", "2"), 0.5 / 0.7, 0.7),
        # the second label is nowhere: after the space it can have no more than the least that was told there
        ({(): [(" ", 0.8), ("x", 0.1)], (" ",): [("1", 0.9), ("x", 0.01)]}, ("1", "2"), 0.9 / 0.91, 0.728),
        # the path to the second label is not among the likeliest
        ({(): [("Fir", 0.8), ("x", 0.1)], ("Fir",): [("st", 1.0)], ("Sec",): [("ond", 1.0)]}, ("First", "Second"),
         0.8 / 0.9, 0.9),
        ({(): [(" ", 1.0)], (" ",): [("1", 1.0)], (" ", "1"): [("0", 0.25), (".", 0.75)]}, ("10", "1"), 0.25, 1.0),
    ],
)  # fmt: skip
def test_sequences_are_multiplied_summed_and_bounded(read, labels, p, mass):
    read = {path: [(token, math.log(share)) for token, share in tokens] for path, tokens in read.items()}
    found = label_probability(read, TextSpellings(labels))
    assert found[:2] == pytest.approx((p, mass), abs=1e-9)


def test_a_probability_of_nothing_is_one_that_was_not_told():
    read = {(): [("A", math.log(0.9)), ("x", math.log(0.05)), ("B", -math.inf)]}
    assert label_probability(read, TextSpellings("AB"))[:2] == pytest.approx((0.9 / 0.95, 0.95))
    assert label_probability({(): [("A", -math.inf)]}, TextSpellings("AB")) is None


def positions(*alternatives: dict[str, float]) -> list[tuple[str, list[tuple[str, float]]]]:
    """The tokens of a reply, each with what else might have stood there; the first of them was said."""
    return [
        (next(iter(tokens)), [(token, math.log(share)) for token, share in tokens.items()]) for tokens in alternatives
    ]


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize(
    ("labels", "said", "p", "mass"),
    [
        (("1", "2"), [{"1": 0.7, "2": 0.2}], 0.7 / 0.9, 0.9),
        (("Story 1", "Story 2"), [{"Story": 0.9}, {" ": 0.8, ":": 0.2}, {"1": 0.5, "2": 0.3}], 0.5 / 0.8, 0.576),
        (("Story 1", "Story 2"), [{"Story": 0.9}, {" 1": 0.5, " 2": 0.3}], 0.5 / 0.8, 0.72),
        (("First", "Second"), [{"Sec": 0.6, "Fir": 0.3, "The": 0.1}, {"ond": 0.9, "ret": 0.1}], 0.3 / 0.84, 0.84),
        (("First", "Second"), [{"First": 0.6, "Sec": 0.3}], 0.6 / 0.9, 0.9),
        (("10", "9"), [{"1": 0.8, "9": 0.2}, {"0": 0.75, "1": 0.25}], 0.6 / 0.8, 0.8),
        (("10", "9"), [{"9": 0.8, "1": 0.2}], 0.2, 1.0),
        (("1", "10"), [{"1": 1.0}, {"0": 0.25, ".": 0.75}], 0.75, 1.0),
        (("1", "10"), [{"1": 1.0}, {".": 0.75, "0": 0.25}], 0.75, 1.0),
    ],
)
def test_a_reply_is_read_along_the_tokens_of_its_label(labels, said, p, mass, begun):
    prompt = replace(PROMPT, labels=labels)
    assert read_logprobs(positions(*said), prompt, begun=begun)[:2] == pytest.approx((p, mass))


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ([{"Response": 1.0}, {" ": 0.9, " one": 0.1}, {"2": 0.75, "1": 0.25}], (0.25, 1.0)),
        ([{"**": 1.0}, {"2": 0.75, "1": 0.25}, {"**": 1.0}], (0.25, 1.0)),
        ([{"1": 1.0, "2": 1e-9}, {"2": 1.0}], None),  # twelve is neither
        ([{"Both": 1.0, "1": 0.1}], None),
    ],
)
def test_a_reply_of_its_own_is_read_where_the_label_is(said, found):
    read = read_logprobs(positions(*said), replace(PROMPT, labels=("1", "2")))
    assert (read and read[:2]) == (found and pytest.approx(found))


def test_a_begun_reply_goes_on_with_a_space():
    said = positions({" ": 0.9, "1": 0.02}, {"1": 0.6, "2": 0.3})
    found = read_logprobs(said, replace(PROMPT, labels=("1", "2")), begun=True)
    assert found[:2] == pytest.approx((0.56 / 0.83, 0.83))


def test_numbers_that_are_no_log_probabilities_are_refused_wherever_they_stand():
    said = [(" ", [(" ", -0.1)]), ("1", [("1", 3.0)])]
    with pytest.raises(ValueError, match="no log-probabilities"):
        read_logprobs(said, replace(PROMPT, labels=("1", "2")), begun=True)


@pytest.mark.parametrize(("labels", "tokens"), [(("A", "B"), 1), (("1", "2"), 8)])
def test_a_server_is_asked_for_as_many_tokens_as_a_label_may_take(labels, tokens):
    with Api(reply_tokens({" ": 0.9, " A": 0.1}, {labels[0]: 0.6, labels[1]: 0.3})) as api:
        judge = load_judge("openai/tiny", base_url=api.url, prefill=True)
        [judgement] = judge.judge(some_questions(1), replace(PROMPT, labels=labels))
    assert api.requests[0].body["max_tokens"] == tokens
    assert judgement.mass > 0.8


class Engine:
    """Answers as vLLM's engine does: the 20 likeliest next tokens of each prompt; what is no token is refused."""

    def __init__(self, model):
        self.model, self.asked = model, []

    def generate(self, prompts, sampling, *, use_tqdm):
        assert (sampling, use_tqdm) == ("sampling", False)
        self.asked.append(len(prompts))
        prompts = [prompt["prompt_token_ids"] for prompt in prompts]
        if max(map(max, prompts)) >= SMALL["vocab_size"]:
            raise ValueError("Token id 420 is out of vocabulary")
        return [self.answer(ids) for ids in prompts]

    def answer(self, ids):
        with torch.inference_mode():
            likeliest = torch.log_softmax(self.model(torch.tensor([ids])).logits[0, -1], dim=0).topk(20)
        logs = zip(likeliest.indices.tolist(), likeliest.values.tolist(), strict=True)
        entries = {token: SimpleNamespace(logprob=logprob) for token, logprob in logs}
        return SimpleNamespace(outputs=[SimpleNamespace(logprobs=[entries], token_ids=[next(iter(entries))])])


def test_the_engine_is_asked_after_every_beginning_of_a_label_and_one_refusal_is_one_failure():
    tokenizer, model = byte_level(), make_model("llama", **dict.fromkeys("Ġ12", 4.0))
    prompt, questions = replace(PROMPT, labels=("1", "2")), some_questions(5)
    exact = answers(hf.judge_with(model, tokenizer, "tiny"), questions, prompt)
    engine = Engine(model)
    judge = VllmJudge("vllm/tiny", {}, Chat(tokenizer, 255), engine, "sampling")
    found = answers(judge, questions, prompt)
    assert engine.asked == [10]
    assert [answer.p for answer in found] == pytest.approx([answer.p for answer in exact], abs=1e-4)
    assert [answer.mass for answer in found] == pytest.approx([answer.mass for answer in exact], abs=1e-4)
    assert [(a.reply, a.tokens_out) for a in found] == [(a.reply, a.tokens_out) for a in exact]
    tokenizer.add_tokens([f"filler{number}" for number in range(len(tokenizer), SMALL["vocab_size"])])
    tokenizer.add_tokens(["zyzzyva"])
    questions[2] = replace(questions[2], first_text="the zyzzyva", context_text="old house " * 300)
    again = answers(judge, questions, prompt)
    assert "420" in again[2].error
    assert again[2].cut > 1500
    assert [a.p for a in again[:2] + again[3:]] == pytest.approx([a.p for a in found[:2] + found[3:]], abs=1e-9)


# Line-ups

LINEUP = PROMPT.resized(4)


def some_lineups(count, contexts=3):
    """Questions about four texts each."""
    questions = some_questions(2 * count, contexts)
    return [
        replace(question, second=Rest((-question.first, "third", "fourth")), other_texts=other.texts)
        for question, other in zip(questions[:count], questions[count:], strict=True)
    ]


def shares(answer):
    return [float(share) for share in answer.lineup.split("|")]


@pytest.mark.parametrize("name", one_short(["llama", "tied", "window", "capped", "recurrent", "t5"]))
def test_a_line_up_gives_all_labels_as_the_model_does_one_at_a_time_in_every_way_of_reading(name):
    tokenizer, model, questions = TOKENIZERS["bytes"], make_model(name), some_lineups(7)
    vocabulary, want = tokenizer.get_vocab(), []
    spelled = [[code for word, code in vocabulary.items() if word.strip("Ġ:}").upper() == label] for label in "ABCD"]
    for question in questions:
        alone, spaced = (next_logs(model, tokenizer, question, after).exp() for after in ([], ["Ġ"]))
        each = alone + alone[vocabulary["Ġ"]] * spaced  # every label with and without a space before it
        want.append([each[codes].sum().item() for codes in spelled])
    masses = np.sum(want, axis=1)
    logs = np.log(want) - np.log(masses)[:, None]
    assert np.ptp(logs, axis=0).min() > 0.03
    for options in ({"reuse": False, "batch": 1}, {"reuse": False}, {"reuse": True, "batch": 3}, {"reuse": "tree"}):
        found = answers(hf.judge_with(model, tokenizer, "tiny", **options), questions, LINEUP)
        np.testing.assert_allclose([shares(answer) for answer in found], logs, atol=1e-3, err_msg=str(options))
        np.testing.assert_allclose([answer.p for answer in found], np.exp(logs[:, 0]), atol=1e-4)
        np.testing.assert_allclose([answer.mass for answer in found], masses, rtol=1e-3)


def test_the_context_of_line_ups_is_computed_once():
    tokenizer, model, questions = TOKENIZERS["bytes"], make_model("llama"), some_lineups(6, contexts=1)
    prompt = criterion_prompt("more natural", "Response", "Dialogue", "delimited").resized(4)
    computed, found = {}, {}
    for reuse in (False, True, "tree"):
        judge, read = hf.judge_with(model, tokenizer, "tiny", reuse=reuse), []
        hook = model.register_forward_pre_hook(
            lambda _model, _arguments, options, read=read: read.append(options["input_ids"].numel()), with_kwargs=True
        )
        found[reuse] = [shares(answer) for answer in answers(judge, questions, prompt)]
        hook.remove()
        computed[reuse] = sum(read)
    rows, paths = judge._chat.encode(questions, prompt), judge._chat.spellings(prompt).paths
    shared = judge._shared(rows, prompt)
    assert tokenizer.decode(rows[0].ids[:shared]).endswith(f"Response A:\n{DELIMITER}\n")
    assert len(paths) == len(paths[0]) == 1
    sizes = [len(row.ids) + 1 for row in rows]
    assert computed[False] == 6 * max(sizes)  # rows are padded to the longest
    assert computed[True] == shared + 6 * (max(sizes) - shared)
    assert computed["tree"] <= shared + sum(sizes) - 6 * shared
    np.testing.assert_allclose(found[True], found[False], atol=1e-3)
    np.testing.assert_allclose(found["tree"], found[False], atol=1e-3)


def test_all_texts_of_a_line_up_are_cut_to_the_window():
    [question] = some_lineups(1)
    question = question.with_texts([f"the {word} {'sea ' * 60}" for word in ("cat", "mat", "house", "door")])
    judge = hf.judge_with(make_model("llama"), TOKENIZERS["bytes"], "tiny", window=120)
    [answer] = judge.judge([question], LINEUP)
    [row] = judge._chat.encode([question], LINEUP)
    assert not answer.failed
    assert len(row.ids) <= 120
    assert answer.cut > 4 * 150
    assert judge._chat.tokenizer.decode(row.ids).count("…") == 4


def test_the_engine_answers_line_ups():
    model = make_model("llama", **dict.fromkeys(("Ġ", "ĠA", "ĠB", "C", "D"), 6.0))
    tokenizer, questions = TOKENIZERS["bytes"], some_lineups(5)
    exact = answers(hf.judge_with(model, tokenizer, "tiny"), questions, LINEUP)
    found = answers(VllmJudge("vllm/tiny", {}, Chat(tokenizer, 255), Engine(model), "sampling"), questions, LINEUP)
    np.testing.assert_allclose([shares(a) for a in found], [shares(a) for a in exact], atol=0.05)
    assert [a.mass for a in found] == pytest.approx([a.mass for a in exact], abs=0.01)


def test_a_label_of_a_line_up_that_was_not_read_has_a_finite_logarithm():
    p, mass, said = label_probability({(): [("B", 0.0)]}, TextSpellings("ABC"), 3)
    assert (p, mass) == pytest.approx((0.0, 1.0))
    assert all(math.isfinite(float(share)) for share in said.split("|"))
    assert label_probability({(): [("The", -0.1)]}, TextSpellings("ABC"), 3) is None


def test_a_sure_line_up_is_no_choice():
    """p of two slots is below 1, which is a decision, where a label has no probability at all."""
    read = {(): [("A", 0.0), ("B", -700.0), ("C", -50.0), ("D", -3.0)]}
    p, mass, lineup = label_probability(read, TextSpellings("ABCD"), 4)
    assert (0.9 < p < 1, mass) == (True, 1.0)
    assert all(0 < p < 1 for p, _ in soft_rows([float(part) for part in lineup.split("|")], 0))
