"""Which files a local model is: a digest of them, since two models may have the same name, path and size."""

import hashlib
from pathlib import Path

BLOCKS, BLOCK = 16, 2**16  # of a file, evenly spread, and bytes in each: training changes all weights, not some
ENDINGS = (".gguf", ".safetensors", ".bin", ".pt", ".json", ".jinja", ".model", ".txt")


def digest_of(model: str | Path) -> str | None:
    """A digest of a model's file, or of the files of its folder; None for a name on the Hub.

    It is that of names, sizes and evenly spread blocks, because reading all of a large model takes longer than loading
    it. The path is not in it: a model that is moved stays the same.

    >>> digest_of("Qwen/Qwen2.5-7B-Instruct")
    """
    path = Path(model).expanduser()
    if path.is_file():
        files = [path]
    elif path.is_dir():
        files = sorted(file for file in path.iterdir() if file.is_file() and file.suffix.lower() in ENDINGS)
    else:
        return None
    digest = hashlib.sha256()
    for file in files:
        size = file.stat().st_size
        digest.update(f"{file.name}\n{size}\n".encode())
        with file.open("rb") as stream:
            for number in range(BLOCKS):
                stream.seek(max(0, size - BLOCK) * number // (BLOCKS - 1))
                digest.update(stream.read(BLOCK))
    return digest.hexdigest()[:32]
