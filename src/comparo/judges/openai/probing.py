"""What a server accepts and gives, found by questions of a few words before any text is sent.

A run asks one question with its own settings (and one more where the reply is begun): what the server refuses costs
nothing, and changes the question as `caller` does. `survey` tries all that there is, for `comparo judge --probe`.
"""

from collections.abc import Callable
from dataclasses import replace
from math import nan

from comparo.data.prompts import Prompt, Question, criterion_prompt
from comparo.errors import JudgeError
from comparo.judges.openai.settings import Dialect, Settings
from comparo.judges.protocol import Judgement, Probe

QUESTION = Question("7", "3", None, "This is number 7.", "This is number 3.")
PROMPT = criterion_prompt("larger", kind="Number")
# A model that goes on says "four"; one that was not told of the beginning says it again.
COUNTING = Prompt("Count from one to six in words.{first}{second}", ("four", "One"), "One, two, three,")
CLEAR = 0.1  # mass of "four" and "One" below which it is not clear what the model does
EFFORTS = ("none", "low")  # those that decide what a judge can do; the others differ in cost

Ask = Callable[[Settings, Prompt, Question], tuple[Judgement, bool]]  # the answer, and whether its limit cut it


def probe(judge: Settings, ask: Ask) -> Probe:
    """Ask one question as the judge is set, and say what was found; a JudgeError where its settings cannot work."""
    judge.ready()
    if judge.dialect.serves:  # it has answered in this process, such as in an audition
        return _probe(judge, ", ".join(_parts(judge)), [])
    answer, was_cut = ask(replace(judge, votes=min(judge.votes, 1)), PROMPT, QUESTION)
    if was_cut and judge.limited:
        raise JudgeError(
            f"{judge.name} uses up max_tokens = {judge.max_tokens} before it answers a question of a few words; raise "
            "it, or leave it out"
        )
    judge.dialect.written = answer.tokens_out or None
    answers, parts = [answer], _parts(judge)
    if judge.prefill:
        answers.append(ask(judge, COUNTING, Question("", ""))[0])
        if goes_on(answers[-1]) is False:
            raise JudgeError(f"{judge.base_url} does not go on with a reply that was begun; drop prefill")
        parts.append("goes on with a reply that was begun" if goes_on(answers[-1]) else "prefill unclear")
    if answer.failed:
        parts.append(f"its answer could not be used ({answer.error})")
    return _probe(judge, ", ".join(parts), answers)


def goes_on(answer: Judgement) -> bool | None:
    """Whether a model counted on from where its reply was begun; None where that is not clear.

    >>> [goes_on(Judgement(Question("", ""), p=p, mass=0.9)) for p in (0.99, 0.01)]
    [True, False]
    """
    return answer.p > 0.5 if answer.mass >= CLEAR else None


def survey(judge: Settings, ask: Ask) -> tuple[list[tuple[str, str]], Probe]:
    """All that can be found about a model: names and findings, and what it took."""
    judge.ready()
    plain = replace(judge, votes=0, graded=False, prefill=False, effort=None, temperature=0.0, max_tokens=8)
    soft = replace(plain, limited=False, dialect=Dialect())
    voting = replace(soft, votes=1, temperature=1.0, max_tokens=64, dialect=Dialect())
    answers: list[Judgement] = []

    def tried(asked: Settings, prompt: Prompt = PROMPT, question: Question = QUESTION) -> str:
        try:
            answers.append(ask(asked, prompt, question)[0])
        except JudgeError as error:
            if not asked.dialect.answers:
                raise
            return str(error)
        return answers[-1].error or ""

    refused = tried(soft)
    gives = soft.dialect.gives_logprobs
    effort = f" with effort {soft.dialect.effort}" if soft.dialect.effort else ""
    found = [("log-probabilities", f"of {soft.dialect.top_logprobs} tokens{effort}" if gives else f"no: {refused}")]
    if gives and judge.endpoint == "chat":
        begun = tried(replace(soft, prefill=True), COUNTING, Question("", ""))
        states = {True: "goes on with it", False: "no", None: f"not clear{f': {begun}' if begun else ''}"}
        found.append(("a reply that was begun", states[None if begun else goes_on(answers[-1])]))
    trouble = tried(voting)
    spoken = voting.dialect
    found.append(
        ("structured output", f"no verdict: {trouble}" if trouble else "yes" if spoken.response_format else "no")
    )
    found.append(("reasons if not told otherwise", "yes" if spoken.reasons else "no"))
    if judge.endpoint == "chat":
        for level in EFFORTS:
            problem = tried(replace(voting, effort=level, dialect=replace(spoken)))
            found.append((f"effort {level}", f"no: {problem}" if problem else "not refused"))
    found.append(("limit of tokens", spoken.max_tokens))
    found.append(("temperature", f"taken{effort}" if soft.dialect.temperature and gives else "only the server's own"))
    if judge.price is not None:
        found.append(("price", judge.price.sentence()))
    return found, _probe(judge, "; ".join(": ".join(pair) for pair in found), answers)


def _parts(judge: Settings) -> list[str]:
    """What the question showed, in words."""
    dialect = judge.dialect
    if judge.votes:
        structured = dialect.response_format and judge.endpoint == "chat"
        parts = ["verdicts as structured output" if structured else "verdicts as text"]
    else:
        parts = [
            f"log-probabilities of {dialect.top_logprobs} tokens" if dialect.gives_logprobs else "no log-probabilities"
        ]
    if effort := judge.effort or dialect.effort:
        parts.append(f"effort {effort}")
    elif judge.reasons:
        parts.append("reasons before it answers")
    room = judge.max_tokens if judge.limited or not judge.reasons else dialect.most
    parts.append(f"{dialect.max_tokens} {room:,}")
    parts.append(f"temperature {judge.temperature:g}" if dialect.temperature else "the server's own temperature")
    return parts


def _probe(judge: Settings, sentence: str, answers: list[Judgement]) -> Probe:
    costs = [answer.cost for answer in answers if answer.tokens_in or answer.tokens_out]
    return Probe(
        f"{judge.name}: {sentence}",
        judge.dialect.told(),
        len(answers),
        sum(answer.tokens_in + answer.tokens_out for answer in answers),
        nan if judge.price is None else sum(costs),
    )
