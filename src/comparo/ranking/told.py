"""What people's votes told beside a machine's ranking."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class People:
    """What people's votes told.

    Parameters
    ----------
    votes, voters : How many votes there are, and by how many people.
    validity, low, high : k with its interval, the share of the judge's view of a text beyond its group that people
        share; None where no groups are known.
    correlation : The expected correlation of the scores with people's.
    alone : The same from the votes alone, without the machine.
    worth : How many votes of people alone would give the same, r²/(1 − r²) being proportional to their number.
    """

    votes: int
    voters: int
    validity: float | None
    low: float | None
    high: float | None
    correlation: float
    alone: float
    worth: float
