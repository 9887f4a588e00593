"""How far a run is."""

import time
from dataclasses import dataclass, field

from comparo.ranking.ranking import Ranking


@dataclass
class Progress:
    """The progress of a run: number of calls, failures, cost in dollars, calls per second, the ranking so far."""

    total: int
    answered: int = 0
    failed: int = 0
    cost: float = 0.0
    asked: int = 0  # calls since this start
    cut: int = 0  # of these, how many had texts cut to the model's window
    started: float = field(default_factory=time.monotonic)
    ranking: Ranking | None = None
    batch: str = ""  # how far the server is with a batch, where the run waits for one

    @property
    def rate(self) -> float:
        return self.asked / max(time.monotonic() - self.started, 1e-9)
