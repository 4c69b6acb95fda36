"""Imports damaged copies of a GGUF, one after another. Run as a program: MLX may end the process.

Arguments: the sound file, a folder to work in, a seed, and how many. Prints how many were refused.
"""

import random
import sys
from pathlib import Path

from toolkit.errors import ToolkitError
from toolkit.models.gguf_import import import_gguf

NUMBERS = (0, 1, 2, 3, 5, 12, 30, 99, 255, 2**31, 2**32 - 1, 2**62, 2**63, 2**64 - 1)


def damage(content: bytes, end: int, source: random.Random) -> bytes:
    """Change a few bytes before `end`, where the header is."""
    damaged = bytearray(content)
    for _ in range(source.choice((1, 1, 2))):
        at = source.randrange(4, end)
        width = source.choice((1, 4, 8))
        damaged[at : at + width] = (source.choice(NUMBERS) % 256**width).to_bytes(width, "little")
    return bytes(damaged)


def main(sound: Path, folder: Path, seed: int, n_copies: int) -> None:
    content = sound.read_bytes()
    end = content.index(b"output_norm.weight") + 50
    source = random.Random(seed)
    n_refused = 0
    for copy in range(n_copies):
        file = folder / "damaged.gguf"
        file.write_bytes(damage(content, end, source))
        try:
            import_gguf(file, folder / f"out-{copy}")
        except ToolkitError:
            n_refused += 1
    print(n_refused)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
