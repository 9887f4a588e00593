"""Whether a voice can go on: how many of its judgements failed, and whether it answers by the labels."""

from __future__ import annotations

from dataclasses import dataclass, field

from scipy.special import bdtrc

from comparo.judges import Judgement

FAILED = 0.2  # the share of judgements that may fail: a run that loses so many still ranks by the others
CHANCE = 0.001  # that a voice which fails at that rate is left out, at each look
ENOUGH = 20  # judgements needed before that share, or the share of probability on the labels, is checked


@dataclass
class Health:
    """What one voice answered so far; `first` is how many of its answers must put `least_mass` on the labels.

    >>> health = Health(("A", "B"), least_mass=0.5, first=1)
    >>> from comparo.data.prompts import Question
    >>> health.take(Judgement(Question("ana", "bo"), p=0.7, mass=0.02, reply="I think"))
    >>> print(health.problem)
    the judge puts only 2.0% of its probability on the labels A and B in its first 1 answers, so they say little ...
    """

    labels: tuple[str, str]
    least_mass: float
    first: int
    masses: list[float] = field(default_factory=list)
    asked: int = 0  # calls since this start
    lost: int = 0  # of these, how many failed
    error: str | None = None  # of the last that failed
    reply: str = ""

    def take(self, judgement: Judgement) -> None:
        """Take a judgement of this start into account."""
        self.asked += 1
        self.lost += judgement.failed
        self.error = judgement.error or self.error
        if not judgement.failed and judgement.mass == judgement.mass and len(self.masses) < self.first:
            self.masses.append(judgement.mass)
            self.reply = judgement.reply

    @property
    def problem(self) -> str | None:
        """Why no more should be asked, in words for the user; None if all is well."""
        masses = self.masses[: self.first]
        if len(masses) == self.first and (mean := sum(masses) / len(masses)) < self.least_mass:
            said = f" Its last reply begins {self.reply[:80]!r}." if self.reply else ""
            return (
                f"the judge puts only {mean:.1%} of its probability on the labels {' and '.join(self.labels)} in its "
                f"first {len(masses)} answers, so they say little about the texts.{said} Change --labels, --answer or "
                "the judge; --least-mass 0 goes on all the same"
            )
        if self.asked >= ENOUGH and is_excess(self.lost, self.asked):
            return too_many(self.lost, self.asked, self.error)
        return None


def is_excess(failed: int, asked: int) -> bool:
    """Whether significantly more than the share `FAILED` of judgements failed, by a one-sided binomial test.

    >>> is_excess(5, 20), is_excess(10, 20), is_excess(11, 20), is_excess(59, 200)
    (False, False, True, True)
    """
    return failed > 0 and bool(bdtrc(failed - 1, asked, FAILED) < CHANCE)


def too_many(failed: int, asked: int, error: str | None) -> str:
    """That too many judgements failed, in words for the user."""
    return (
        f"{failed} of {asked} judgements failed, the last with: {error}. Mend that and run the same command again: "
        "what was judged is kept"
    )
