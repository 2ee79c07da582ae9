"""Labels of a command line option."""

import json
from pathlib import Path


def read_labels(option: str | None) -> list[str] | None:
    """Read labels from a list with commas, or a file of lines or JSON. ValueError if none."""
    if option is None:
        return None
    path = Path(option)
    if not path.is_file() and path.suffix in (".txt", ".json"):
        raise ValueError(f"{path}: no such file; expected a list with commas, or a file")
    labels = option.split(",")
    if path.is_file():
        try:
            text = path.read_text(encoding="utf-8-sig")
            labels = json.loads(text) if path.suffix == ".json" else text.splitlines()
        except UnicodeDecodeError as error:
            raise ValueError(f"{path}: byte {error.start + 1} is not UTF-8") from None
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path}: no JSON: {error}") from None
        if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
            raise ValueError(f"{path}: expected a list of labels")
    labels = [label.strip() for label in labels if label.strip()]
    if not labels:
        raise ValueError(f"{option}: no labels; expected a list with commas, or a file")
    return labels
