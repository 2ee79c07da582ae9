"""What was seen: gold documents that training, `calibrate` or `control` used before."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from spacy.language import Language
from spacy.tokens import Doc
from spacy.vocab import Vocab

from bcrf.chain.potentials import counted
from spacy_bcrf.loading import find_reader
from spacy_bcrf.pipeline.held_out import hash_all
from spacy_bcrf.pipeline.sequence_labeler import SequenceLabeler
from spacy_bcrf.pipeline.settings import Control
from spacy_bcrf.readers.doc_files import read_docs


def note_shared(gold: Iterable[Doc], train: Iterable[Doc], where: str, source: str) -> list[str]:
    """Return a note if gold documents are training documents too. where, source: their names."""
    known = {hash(doc.text) for doc in train}
    found = Counter(hash(doc.text) in known for doc in gold)
    are, them = ("is", "it") if found[True] == 1 else ("are", "them")
    note = (
        f"{found[True]:,} of {found.total():,} documents of {where} {are} in {source} too: scores "
        f"on {them} are too good"
    )
    return [note] if found[True] else []


def note_trained(nlp: Language, gold: Iterable[Doc], where: str) -> list[str]:
    """Return a note if gold documents are in the training corpus of a pipeline's config.

    where: the name of the gold documents. A corpus that is not on this machine gives no note.
    """
    try:
        path = Path(find_reader(nlp, "train")[1]["path"])
        return note_shared(gold, read_docs(path, Vocab()), where, str(path))
    except (KeyError, TypeError, ValueError, OSError):
        return []


def find_first(docs: Sequence[Doc]) -> list[int]:
    """Return the index of the first document of each text."""
    return sorted({doc.text: i for i, doc in reversed([*enumerate(docs)])}.values())


def drop_copies(docs: Sequence[Doc], where: str = "") -> tuple[list[Doc], list[str]]:
    """Return the first document of each text, and a note if there are others.

    Bounds and intervals hold for independent documents. A copy is no new evidence. where: the name
    of the documents.
    """
    first = [docs[i] for i in find_first(docs)]
    of = f" of {where}" if where else ""
    n = len(docs) - len(first)
    have = "is a copy: it has" if n == 1 else "are copies: they have"
    note = (
        f"{n:,} of {len(docs):,} documents{of} {have} the text of an earlier one. Each text counts "
        "once"
    )
    return first, [note] if n else []


def share_seen(seen: Sequence[str], docs: Iterable[Doc]) -> float:
    """Return the share of documents, known by the hashes of `hash_texts`, that are among others."""
    return len(hash_all(docs).intersection(seen)) / max(1, len(seen))


def note_left_out(n: int, who: str) -> list[str]:
    """Return a note about n predictions of a component that gold cannot judge."""
    why = "gold has no annotation or other tokens there, or is open."
    are = "is" if n == 1 else "are"
    return [f"{counted(n, 'prediction')} of {who} {are} left out: {why}"] if n else []


def note_fitted(promise: Control | None, gold: Sequence[Doc]) -> list[str]:
    """Return a note if gold documents gave a component its promise."""
    share = share_seen(promise.fitted_on, gold) if promise is not None else 0
    what = f"{100 * share:.0f}% of the documents that `control` was fitted on"
    return [f"{what} are among these: what they reach is too good"] if share else []


def check_unseen(labeler: SequenceLabeler, gold: Sequence[Doc]) -> list[str]:
    """Return a note if gold documents were used to calibrate the component, in training or later.

    ValueError if at least half of the documents of the calibration are among them.
    """
    share = share_seen(labeler.calibrated_on, gold)
    what = f"{100 * share:.0f}% of the documents that the temperature was fitted on"
    if share >= 0.5:
        raise ValueError(
            f"[{labeler.name}] the gold documents have {what}. A promise needs documents that "
            "neither training nor `calibrate` has seen"
        )
    return [f"the gold documents have about {what}: leave them out"] if share else []
