"""Files that are there whole or not at all."""

import os
from pathlib import Path


def write_text(path: Path, text: str) -> None:
    """Write beside and rename, so that there is no half-written file under that name."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(text, encoding="utf8")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
