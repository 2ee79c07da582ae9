"""Measure what `redact` leaves of documents by kind, and what it replaces of the rest.

    python -m models.en_bcrf_pii.leaks MODEL [DOCUMENTS...] [--threshold P] [--presidio]

With --presidio, MODEL is the spaCy pipeline that Presidio reads, and its analyzer judges alone.
DOCUMENTS: files as unseen.txt, by default this, or of JSON lines, whose spans with the `identifier`
NO_MASK are none. A span is wholly left if no letter or digit of it is replaced.
"""

import argparse
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import spacy

from bcrf.io.extras import require
from spacy_bcrf.privacy.occurrences import Region
from spacy_bcrf.privacy.redact import redact

from .documents import UNSEEN, Document, read_json_lines, read_markup


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="name or folder of the pipeline")
    parser.add_argument("documents", nargs="*", type=Path, default=[UNSEEN])
    parser.add_argument("--threshold", type=float, help="least probability (default: promise's)")
    parser.add_argument("--show", action="store_true", help="print leaks and replaced text")
    parser.add_argument("--presidio", action="store_true", help="measure Presidio's analyzer")
    args = parser.parse_args()
    documents = [document for path in args.documents for document in read(path)]
    texts = [document.text for document in documents]
    if args.presidio:
        found = analyze(args.model, texts)
    else:
        nlp = spacy.load(args.model)
        redacted = redact(nlp, map(nlp.make_doc, texts), threshold=args.threshold)
        found = (one.regions for one in redacted)
    print("\n".join(measure(documents, found, args.show)))


def analyze(model: str, texts: Iterable[str]) -> Iterator[list[Region]]:
    """Yield the regions of each text that Presidio finds by default, with a spaCy pipeline."""
    presidio = require("presidio_analyzer", "presidio")
    providers = require("presidio_analyzer.nlp_engine", "presidio")
    names = [{"lang_code": "en", "model_name": model}]
    settings = {"nlp_engine_name": "spacy", "models": names}
    provider = providers.NlpEngineProvider(nlp_configuration=settings)
    analyzer = presidio.AnalyzerEngine(nlp_engine=provider.create_engine())
    for text in texts:
        found = analyzer.analyze(text=text, language="en")
        yield [Region(x.start, x.end, x.entity_type, x.score) for x in found]


def read(path: Path) -> Iterable[Document]:
    if path.suffix == ".txt":
        return read_markup(path)
    return (
        Document(
            one["text"],
            [
                (span["start"], span["end"], span["label"])
                for span in one["spans"]
                if span.get("identifier") != "NO_MASK"
            ],
            path.parent.name,
        )
        for one in read_json_lines(path)
    )


def measure(
    documents: Sequence[Document], found: Iterable[Sequence[Region]], show: bool = False
) -> Iterable[str]:
    """Yield a line for each kind, and one for all. found: the replaced regions of each document."""
    counts: dict[str, np.ndarray] = defaultdict(lambda: np.zeros(5, int))
    for one, regions in zip(documents, found, strict=True):
        signs = np.array([c.isalnum() for c in one.text], bool)
        replaced, gold = np.zeros((2, len(one.text)), bool)
        for region in regions:
            replaced[region.start : region.end] = True
        for start, end, label in one.spans:
            gold[start:end] = True
            left, n = int((signs & ~replaced)[start:end].sum()), int(signs[start:end].sum())
            counts[one.kind] += (1, left == n, 0 < left < n, 0, 0)
            if left and show:
                print(f"{one.kind}: {label} {one.text[start:end]!r}, {left} of {n} left")
        others = signs & ~gold
        counts[one.kind] += (0, 0, 0, int(others.sum()), int((others & replaced).sum()))
        for region in regions if show else ():
            if (others[region.start : region.end]).any():
                text = one.text[region.start : region.end]
                print(f"{one.kind}: replaced {text!r} as {region.label}, {region.score:.2f}")
    counts["all"] = sum(counts.values(), np.zeros(5, int))
    for kind, (n, wholly, partly, other, cost) in counts.items():
        shown = f"{wholly:4} left, {partly:4} partly"
        yield f"{kind:32} {n:5} spans: {shown}; {cost / max(1, other):6.1%} of other characters"


if __name__ == "__main__":
    main()
