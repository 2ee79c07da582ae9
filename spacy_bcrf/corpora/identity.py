"""Identity of runs: what decides their output, and whether a folder has output of the same run."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from bcrf.io.atomic import write_text
from bcrf.io.text import CorpusError

T = TypeVar("T")


def hash_identity(identity: Mapping[str, Any]) -> str:
    """Return a name for a folder of what a run of this identity keeps. identity: JSON values."""
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:12]


def keep_identity(path: Path, identity: Mapping[str, Any]) -> None:
    """Write the identity of a run, or compare it with the old one. CorpusError: of another run."""
    new = json.loads(json.dumps(identity))
    old = keep_part(path, lambda: new, lambda values: values)
    if found := list(_differences(old, new)):
        more = f"; and {len(found) - 5} more" if len(found) > 5 else ""
        raise CorpusError(
            f"{path.parent}: was started differently: {'; '.join(found[:5])}{more}. Give the same "
            "input, model and options, another folder, or delete this one to start anew"
        )


def keep_part(path: Path | None, make: Callable[[], Any], read: Callable[[Any], T]) -> T:
    """Return a part of a run that an earlier call finished, or make it and keep it.

    path: file of the part, in a folder of `keep_identity`; None keeps nothing. make: returns its
    JSON values. read: returns the part of these. CorpusError for a damaged file.
    """
    if path is not None and path.exists():
        try:
            return read(json.loads(path.read_text("utf8")))
        except (ValueError, TypeError, RecursionError) as error:
            problem = (
                f"is not the file of an earlier run ({error}); delete it, or take another folder"
            )
            raise CorpusError(f"{path}: {problem}") from None
    values = make()
    if path is not None:
        write_text(path, json.dumps(values, indent=1))
    return read(values)


def _differences(old: Any, new: Any, name: str = "") -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys((*old, *new)):
            where = f"{name} {key}".strip()
            if key not in new:
                yield f"{where} is missing now"
            elif key not in old:
                yield f"{where} is new"
            else:
                yield from _differences(old[key], new[key], where)
    elif old != new:
        yield f"{name} was {json.dumps(old)}, is {json.dumps(new)}"
