"""Several criteria in one call to a server that answers as OpenAI's API says, and to functions."""

import json
import math

import pytest

from comparo import Question, rank
from comparo.judges import as_judge
from inside import criteria_prompt
from servers import Api, Hosted, refusal, tokens, words

pytestmark = pytest.mark.usefixtures("keys")

CRITERIA = {"coherence": "more coherent", "fluency": "more fluent"}
PROMPT = criteria_prompt(CRITERIA, "Summary")
ASKED = [Question("a", "b", first_text="The first.", second_text="The second.")]
OPENAI = Hosted("openai/m")
SURE, UNSURE = {"A": 0.8, "B": 0.2}, {" B": 0.6, " A": 0.4}


def test_one_request_has_the_texts_once_and_a_probability_where_each_line_names_a_label():
    reply = tokens({"coherence": 1.0}, {": ": 1.0}, SURE, {"\n": 1.0}, {"flu": 1.0}, {"ency:": 1.0}, UNSURE)
    with Api(reply) as api:
        [call] = OPENAI.ask(api, ASKED, PROMPT, price="1,10")
    assert [(each.question.voice, round(each.p, 6)) for each in call.each] == [("coherence", 0.8), ("fluency", 0.4)]
    assert call.p == pytest.approx(0.6)
    assert (call.tokens_in, call.cost) == (100, pytest.approx(120e-6))
    assert [each.tokens_in for each in call.each] == [100, 0]
    assert len(api.requests) == 1
    body = api.requests[0].body
    said = body["messages"][0]["content"]
    assert said.count("The first.") == said.count("The second.") == 1
    assert [line.partition(":")[0] for line in said.splitlines()[-2:]] == ["coherence", "fluency"]
    assert body["logprobs"] is True
    assert body["max_tokens"] >= 30


@pytest.mark.parametrize(
    "reply",
    [
        [{"**Coherence": 1.0}, {"**:": 1.0}, {" Summary": 1.0}, SURE, {"\n- fluency: ": 1.0}, {"B": 0.6, "A": 0.4}],
        [{'{"': 1.0}, {"coherence": 1.0}, {'":"': 1.0}, SURE, {'","fluency":"': 1.0}, {"B": 0.6, "A": 0.4}],
        [{"fluency: ": 1.0}, {"B": 0.6, "A": 0.4}, {"\ncoherence: ": 1.0}, SURE],
    ],
)
def test_lines_are_found_by_their_names_however_they_are_decorated(reply):
    with Api(tokens(*reply)) as api:
        [call] = OPENAI.ask(api, ASKED, PROMPT)
    assert [round(each.p, 6) for each in call.each] == [0.8, 0.4]


def test_a_line_that_is_missing_fails_that_criterion_alone():
    with Api(tokens({"coherence: ": 1.0}, SURE)) as api:
        [call] = OPENAI.ask(api, ASKED, PROMPT)
    first, second = call.each
    assert first.p == pytest.approx(0.8)
    assert "no verdict" in second.error
    assert call.failed
    with Api(tokens({"Neither": 1.0})) as api:
        [lost] = OPENAI.ask(api, ASKED, PROMPT)
    assert all("coherence, fluency" in each.error for each in lost.each)
    with Api(refusal(400, "the texts are not allowed")) as api:
        [refused] = OPENAI.ask(api, ASKED, PROMPT)
    assert all("not allowed" in each.error for each in refused.each)


def test_a_reply_about_none_of_many_criteria_is_one_short_message():
    prompt = criteria_prompt({f"quality-{number}": "better" for number in range(30)}, "Summary")
    with Api(tokens({"qualities-17": 1.0}, {": A": 1.0})) as api:
        [call] = OPENAI.ask(api, ASKED, prompt)
    assert len(call.error) < 300
    assert call.error.count("and 25 more") == 2  # those that failed, and those that are most like the reply's
    assert call.error.count("quality-17") == 1


def test_without_log_probabilities_structured_output_has_a_key_per_criterion():
    verdicts = [{"coherence": "Summary A", "fluency": "Summary B"}, {"coherence": "Summary A", "fluency": "Summary A"}]
    with Api(words(*map(json.dumps, verdicts))) as api:
        [call] = OPENAI.ask(api, ASKED, PROMPT, votes=2)
    assert [(each.p, each.weight) for each in call.each] == [(2.5 / 3, 2.0), (0.5, 2.0)]
    schema = api.requests[0].body["response_format"]["json_schema"]["schema"]
    assert schema["required"] == list(CRITERIA)
    assert schema["properties"]["fluency"]["enum"] == ["Summary A", "Summary B"]
    with Api(words("coherence: B\nfluency: Summary A")) as api:
        [plain] = OPENAI.ask(api, ASKED, PROMPT, votes=1)
    assert [each.p for each in plain.each] == [0.25, 0.75]
    with Api(words("coherence: A\nfluency: both are equal")) as api:
        [unclear] = OPENAI.ask(api, ASKED, PROMPT, votes=1)
    assert [each.failed for each in unclear.each] == [False, True]


def test_answers_of_an_earlier_run_come_from_the_cache(tmp_path):
    texts = {f"t{number}": f"Text number {number}." for number in range(5)}
    reply = tokens({"coherence: ": 1.0}, SURE, {"\nfluency:": 1.0}, UNSURE)
    with Api(reply) as api:
        judge = {"judge": f"openai/m; base_url={api.url}", "cache": tmp_path / "cache.sqlite"}
        first = rank(texts, CRITERIA, **judge, budget="4n", out=tmp_path / "one")
        asked = len(api.requests)
        weighed = CRITERIA | {"fluency": f"{CRITERIA['fluency']}; weight=2"}
        again = rank(texts, weighed, **judge, budget="4n", out=tmp_path / "two")
        assert asked == len(api.requests) >= 20
        rank(texts, {"coherence": "more coherent"}, **judge, budget="4n")
        assert len(api.requests) == asked + 20  # another prompt
    for name, ranking in first.rankings.items():
        assert again.rankings[name].scores.tolist() == ranking.scores.tolist()


def test_a_function_answers_by_a_mapping():
    judge = as_judge(lambda first, second: {"coherence": len(first) > len(second), "fluency": 0.3})
    [call] = judge.judge(ASKED, PROMPT)
    assert [each.p for each in call.each] == [0.0, 0.3]
    for answer in (0.7, {"coherence": 0.7}, {"coherence": 0.7, "fluency": math.inf}):
        [call] = as_judge(lambda _first, _second, answer=answer: answer).judge(ASKED, PROMPT)
        assert "mapping" in call.each[1].error
        assert call.each[0].failed == (answer == 0.7)
