"""Options that judges behind an API have in common, as users give them: numbers within bounds, addresses."""

import math
from typing import Any
from urllib.parse import unquote, urlsplit


def address(url: str) -> tuple[str, str | None]:
    """A base URL without user and password, and these."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    odd = any(sign.isspace() or not sign.isprintable() for sign in host or "")
    if not host or odd or parts.scheme not in ("http", "https") or parts.query or parts.fragment:
        raise ValueError("base_url is not the address of an API; it looks like http://localhost:8000/v1")
    name = f"[{host}]" if ":" in host else host
    login = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
    clean = f"{parts.scheme}://{name}{f':{port}' if port else ''}{parts.path.rstrip('/')}"
    return clean, login if login != ":" else None


def number(name: str, value: Any, least: float, most: float = math.inf, *, whole: bool = False) -> Any:
    """A number that a user gave, within its bounds."""
    kinds, meant = ((int,), "a whole number") if whole else ((int, float), "a number")
    if not isinstance(value, kinds) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(
            f"{name} = {value!r} is not {meant} from {least:g} {'up' if most == math.inf else f'to {most:g}'}"
        )
    return value if whole else float(value)
