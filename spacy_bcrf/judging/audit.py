"""`audit`: label errors of a corpus, each document judged by a pipeline not trained on it."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from spacy.language import Language
from spacy.tokens import Doc, DocBin
from spacy.training import Example
from tqdm import tqdm

from bcrf.chain.potentials import counted
from spacy_bcrf import __version__
from spacy_bcrf.annotation.extensions import set_extensions
from spacy_bcrf.annotation.tokenizers import copy_words
from spacy_bcrf.corpora.identity import keep_identity, keep_part
from spacy_bcrf.loading import annotate_before, find_labeler
from spacy_bcrf.result import Result

from .diversity import NearDuplicates
from .folds import Trainer, assign_folds, collect_labels, find_trainer
from .label_errors import Bounds, Suspect, find_suspects

MAX_SIMILARITY = 0.8
"""Texts that share a larger part of their pairs of words are in one fold."""


@dataclass(repr=False)
class Audit(Result):
    """Suspects of label errors, and the numbers of documents and of annotated spans.

    records: JSON values by suspect, the most suspicious first: doc (index), text, start and end
    (characters), label, kind, suggestion, p_gold, p_suggestion, score.
    """

    records: list[dict[str, Any]]
    n_docs: int
    n_spans: int

    def __repr__(self) -> str:
        kinds = Counter(record["kind"] for record in self.records)
        counts = ", ".join(f"{n:,} {kind}" for kind, n in sorted(kinds.items()))
        return (
            f"{counted(len(self.records), 'suspect')} in {counted(self.n_docs, 'document')} with "
            f"{self.n_spans:,} annotations{': ' if counts else ''}{counts}"
        )

    def to_json(self) -> list[dict[str, Any]]:
        return self.records

    def rows(self) -> list[tuple[str, ...]]:
        """Return the cells of a table of the first 50 suspects, with a header."""
        rows: list[tuple[str, ...]] = [("score", "kind", "document", "text", "gold", "suggestion")]
        for one in self.records[:50]:
            text, labels = one["text"][one["start"] : one["end"]], (one, one["suggestion"] or {})
            names = [each.get("label") or "no span" for each in labels]
            rows.append((f"{one['score']:.2f}", one["kind"], str(one["doc"]), text, *names))
        return rows


def audit(
    gold: Sequence[Doc],
    source: Language | str | Path | None = None,
    pipe: str | None = None,
    *,
    folds: int = 5,
    lang: str = "xx",
    work: Path | None = None,
    corpus: str = "the corpus",
) -> Audit:
    """Find label errors: gold annotation that is less likely than another one.

    source: a pipeline that was not trained on `gold`; or the path of a training config, to judge
    each fold by training on the others; None for a sparse linear chain for entities.
    pipe: name of the component, None for the only one. lang: of the sparse chain. work: a folder
    that keeps the results of the folds, so that the same call resumes. corpus: its name, for
    errors. ValueError for a corpus without annotation, with labels that the pipeline does not
    have, or with fewer documents than folds.
    """
    set_extensions()
    if isinstance(source, Language):
        name, labeler = find_labeler(source, pipe)
        labels = collect_labels(corpus, gold, labeler, name)
        if unknown := sorted(labels - set(labeler.labels)):
            raise ValueError(
                f"{corpus}: the documents have the labels {', '.join(unknown)}, but [{name}] has "
                f"{', '.join(labeler.labels)}; use a config in place of the pipeline"
            )
        suspects = judge(source, name, gold)
    else:
        trainer = find_trainer(corpus, gold, source, pipe, lang)
        suspects = _cross_fit(gold, folds, trainer, work, corpus)
    records = [
        _to_record(i, gold[i], suspect)
        for i, of_doc in enumerate(suspects)
        for suspect in of_doc
        if suspect.score >= 0
    ]
    records.sort(key=lambda record: -record["score"])
    n_spans = sum(suspect.gold is not None for of_doc in suspects for suspect in of_doc)
    return Audit(records, len(gold), n_spans)


def judge(nlp: Language, name: str, gold: Sequence[Doc]) -> list[list[Suspect]]:
    """Return the suspects of each document. The pipeline gets the words of the documents."""
    pipe: Any = nlp.get_pipe(name)
    copies = (copy_words(doc, nlp.vocab) for doc in gold)
    shown = tqdm(annotate_before(nlp, name, copies), "judging", len(gold), delay=1, unit="docs")
    examples = [Example(copy, doc) for copy, doc in zip(shown, gold, strict=True)]
    return find_suspects(pipe, examples)


def _cross_fit(
    gold: Sequence[Doc], n_folds: int, trainer: Trainer, work: Path | None, corpus: str
) -> list[list[Suspect]]:
    """Return the suspects of each document, judged by training on the other folds.

    Copies and near copies of a text share a fold: a pipeline trained on a copy finds its errors
    right. work: a folder with a file a finished fold. ValueError if it is of another audit.
    """
    distinct = NearDuplicates(MAX_SIMILARITY)
    text_of = [distinct.find(doc.text) for doc in gold]
    n_texts = len(set(text_of))
    if n_texts < n_folds:
        raise ValueError(
            f"{corpus}: {n_texts:,} distinct documents are too few for {n_folds} folds; each fold "
            "needs one"
        )
    fold_of = assign_folds(n_texts, n_folds)[text_of].tolist()
    if work is not None:
        content = DocBin(docs=gold, store_user_data=True).to_bytes()
        identity = {"version": __version__, "folds": n_folds, "training": trainer.settings}
        keep_identity(work / "audit.json", identity | {"corpus": sha256(content).hexdigest()})

    def judge_fold(fold: int) -> list[list[Suspect]]:
        nlp = trainer.train([doc for doc, k in zip(gold, fold_of, strict=True) if k != fold])
        held_out = [doc for doc, k in zip(gold, fold_of, strict=True) if k == fold]
        return judge(nlp, trainer.name, held_out)

    def read(n_docs: int, values: Any) -> Iterator[list[Suspect]]:
        if len(values) != n_docs:
            raise ValueError(f"{len(values):,} documents, not {n_docs:,}")
        return iter([[Suspect(*one) for one in of_doc] for of_doc in values])

    found = [
        keep_part(
            work and work / f"fold-{fold}.json",
            partial(judge_fold, fold),
            partial(read, fold_of.count(fold)),
        )
        for fold in tqdm(range(n_folds), "folds", unit="folds")
    ]
    return [next(found[fold]) for fold in fold_of]


def _to_record(i: int, doc: Doc, suspect: Suspect) -> dict[str, Any]:
    def place(bounds: Bounds) -> dict[str, Any]:
        span = doc[bounds[0] : bounds[1]]
        return {"start": span.start_char, "end": span.end_char, "label": bounds[2]}

    gold, suggestion = (found and place(found) for found in suspect[:2])
    return {
        "doc": i,
        "text": doc.text,
        **(gold or {**(suggestion or {}), "label": None}),
        "kind": suspect.kind,
        "suggestion": suggestion,
        "p_gold": suspect.p_gold,
        "p_suggestion": suspect.p_suggestion,
        "score": round(suspect.score, 4),
    }
