"""What people's votes told beside a machine's ranking."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class People:
    """What people's votes told.

    Parameters
    ----------
    votes, voters : How many votes there are, and by how many people.
    level : The coverage of the interval of the validity.
    validity, low, high : k with its interval, the share of the judge's view of a text beyond its group that people
        share; None where no groups are known.
    correlation : The expected correlation of the scores with people's; 0 counts for the case that all texts are equal.
    alone : The same from the votes alone, without the machine.
    worth : How many votes of people alone would give the same, r²/(1 − r²) being proportional to their number.
    is_scattered : Whether hardly any text is in two votes.
    """

    votes: int
    voters: int
    level: float
    validity: float | None
    low: float | None
    high: float | None
    correlation: float
    alone: float
    worth: float
    is_scattered: bool = False

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know before trusting the intervals."""
        if not self.is_scattered:
            return ()
        return (
            "hardly any text is in two votes, so that they do not tell how much texts of one group vary: the intervals "
            "of people's scores may be far off; ask about the same texts again, or use comparo powered for groups",
        )

    @property
    def sentence(self) -> str:
        """What the votes told, for a reader.

        >>> print(People(50, 2, 0.95, 0.2, 0.05, 0.4, 0.6, 0.45, 107.0).sentence)
        50 votes of 2 people with the judge's answers are worth about as much as 107 votes alone: the expected
        correlation with people's scores is 0.60, and 0.45 from the votes alone. Of what the judge says about a text
        beyond its group, people share 0.20 (0.05 to 0.40).
        """
        who = f"{self.votes:,} votes of {self.voters:,} people" if self.voters > 1 else f"{self.votes:,} votes"
        sentence = (
            f"{who} with the judge's answers are worth about as much as {self.worth:,.0f} votes alone: the expected "
            f"correlation with people's scores is {self.correlation:.2f}, and {self.alone:.2f} from the votes alone."
        )
        if self.validity is None:
            return sentence
        shared = f"{self.validity:.2f} ({self.low:.2f} to {self.high:.2f})"
        if not all(
            math.isfinite(value) for value in (self.validity, self.low, self.high) if value is not None
        ):  # a ratio whose denominator may be 0
            shared = "an unknown share; more votes tell it"
        return f"{sentence} Of what the judge says about a text beyond its group, people share {shared}."
