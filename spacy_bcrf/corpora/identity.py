"""Identity of runs: what decides their output, and whether a folder has output of the same run."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bcrf.io.atomic import write_text


def hash_identity(identity: Mapping[str, Any]) -> str:
    """Return a name for a folder of what a run of this identity keeps. identity: JSON values."""
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:12]


def keep_identity(path: Path, identity: Mapping[str, Any]) -> None:
    """Write the identity of a run, or compare it with the old one. ValueError lists differences."""
    if not path.exists():
        write_text(path, json.dumps(identity, indent=1))
        return
    try:
        old = json.loads(path.read_text(encoding="utf8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"{path}: is not the file of an earlier run ({error}); expected another folder"
        ) from None
    found = list(_differences(old, json.loads(json.dumps(identity))))
    if found:
        more = f"; and {len(found) - 5} more" if len(found) > 5 else ""
        raise ValueError(
            f"{path.parent}: was started differently: {'; '.join(found[:5])}{more}. Give the same "
            "input, model and options, another folder, or delete this one to start anew"
        )


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
