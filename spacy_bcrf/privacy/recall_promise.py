"""The promise of recall by which a component redacts."""

from collections.abc import Callable, Mapping
from functools import partial
from shlex import quote
from types import MappingProxyType
from typing import Any

from spacy.language import Language

from spacy_bcrf.loading import find_labeler
from spacy_bcrf.pipeline.settings import Control, check_promise


def find_labels(nlp: Language, name: str) -> list[str]:
    """Return the labels of a component, and of those before it that find entities."""
    before = nlp.pipe_names[: nlp.pipe_names.index(name)]
    finders = [x for x in before if "doc.ents" in nlp.get_pipe_meta(x).assigns]
    return [label for x in (*finders, name) for label in nlp.pipe_labels.get(x, ())]


def choose_promise(
    nlp: Language,
    pipe: str | None,
    threshold: float | None,
    promise: str | None,
    where: str = "the pipeline",
) -> tuple[str, Any, Control]:
    """Return name, component and promise, see `find_promise`. where: for errors."""
    shipped = nlp.meta.get("promises", {})
    check = partial(find_promise, threshold=threshold, promise=promise, shipped=shipped)
    name, labeler = find_labeler(nlp, pipe, where, check)
    return name, labeler, check(name, labeler)


def note_unpromised(labeler: Any, promise: Control, report: Callable[[str], object]) -> None:
    """Report the labels that a promise leaves out."""
    if names := ", ".join(sorted({*labeler.labels} - {*promise.labels})):
        report(f"no promise for {names}: not replaced. Give --threshold")


def find_promise(
    name: str,
    labeler: Any,
    threshold: float | None,
    promise: str | None = None,
    shipped: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
) -> Control:
    """Return a component's promise of recall, one of its shipped ones, or that of a threshold.

    promise: a name in `shipped`, `nlp.meta["promises"]`. ValueError if there is none.
    """
    check_promise(name, labeler.codec, "recall")
    if threshold is not None:
        if not 0 < threshold <= 1:
            raise ValueError(f"`threshold` must be above 0 and at most 1, got {threshold:g}")
        thresholds = (threshold,) * len(labeler.labels)
        return Control("recall", labeler.labels, thresholds, labeler.temperature)
    of_recall = {
        key: value
        for key, value in shipped.get(name, {}).items()
        if isinstance(value, Mapping) and value.get("promise") == "recall"
    }
    found: Control | None = labeler.control
    if promise is not None:
        if promise not in of_recall:
            names = ", ".join(map(repr, of_recall)) or "none"
            raise ValueError(f"[{name}] has no promise {promise!r} of recall; it has {names}")
        found = labeler.settings.change(name, {"control": of_recall[promise]}).control
    if found is None or found.promise != "recall":
        ways = ["run `control` with --recall and --covered", "give `threshold`"]
        if of_recall:
            ways = [f"give {' or '.join(f'`promise={quote(key)}`' for key in of_recall)}", *ways]
        raise ValueError(f"[{name}] has no promise of recall: {', or '.join(ways)}")
    return found
