"""Who may open which page: a token for each judge, one for the organiser, and one for an invitation.

They are in a private file of the run folder, so that the links stay the same when the server is started again. Whoever
has a link may use it; without one nothing is shown.
"""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from comparo.errors import StoreError
from comparo.run.store import Store
from comparo.vote.people import checked_name

FILE = "links.json"
BYTES = 18  # of randomness in a token: 144 bits, 24 characters
MOST = 1000  # judges of one run: an invitation that went astray must not fill the disk


@dataclass(frozen=True)
class Links:
    """The tokens of a run, and the port at which its pages were last.

    >>> links = Links.new().joined("ana")
    >>> links.judge(links.judges["ana"]), links.judge("guess"), links.judge("")
    ('ana', None, None)
    """

    organiser: str
    invitation: str
    judges: Mapping[str, str]
    port: int | None = None

    @classmethod
    def new(cls) -> Links:
        """Tokens for an organiser and an invitation, and no judges yet."""
        return cls(secrets.token_urlsafe(BYTES), secrets.token_urlsafe(BYTES), {})

    @classmethod
    def read(cls, folder: Path) -> Links:
        """The tokens of a run folder, new ones where it has none."""
        path = folder / FILE
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
            links = cls(**stored)
            if not all(isinstance(each, str) for each in (links.organiser, links.invitation, *links.judges.values())):
                raise TypeError("a token is not text")
        except FileNotFoundError:
            return cls.new()
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise StoreError(
                f"{path} cannot be read ({error}), so the links of this run are not known; mend it, or remove it to "
                "get new links. The votes are not in it"
            ) from error
        return links

    def write(self, store: Store) -> None:
        """Store the tokens, private and flushed."""
        store.write(FILE, json.dumps(asdict(self), ensure_ascii=False, indent=2) + "\n")

    def joined(self, name: str) -> Links:
        """With one more judge; a ValueError where the name is taken or is none."""
        name = checked_name(name, self.judges)
        if len(self.judges) >= MOST:
            raise ValueError(f"there are {MOST} judges, and no more can join; tell the organiser")
        return replace(self, judges={**self.judges, name: secrets.token_urlsafe(BYTES)})

    def with_judges(self, names: Iterable[str]) -> Links:
        """With these judges, those who are there already unchanged."""
        links = self
        for name in names:
            if name.casefold() not in map(str.casefold, links.judges):
                links = links.joined(name)
        return links

    def judge(self, token: str) -> str | None:
        """The judge with this token; every token is compared, in a time that tells nothing."""
        found = None
        for name, own in self.judges.items():
            if is_same(own, token):
                found = name
        return found


def is_same(token: str, given: str) -> bool:
    """Whether two tokens are the same, found in a time that does not tell how much of them is."""
    return hmac.compare_digest(token.encode(), given.encode("utf-8", "replace"))
