"""Partial annotation of texts from lists of names."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from spacy.language import Language
from spacy.matcher import PhraseMatcher
from spacy.tokens import Doc, Span
from spacy.util import filter_spans

from spacy_bcrf.annotation.partial import AMBIGUOUS


def match_names(
    docs: Iterable[Doc], names: Mapping[str, Sequence[str]], nlp: Language
) -> Iterator[Doc]:
    """Yield documents with entities at names, by label. All other tokens are missing annotation.

    A name in lower case matches any case. The longest stays. Names of several labels are ambiguous.
    """
    matcher, known = PhraseMatcher(nlp.vocab, "LOWER"), dict[str, set[str]]()
    for label, phrases in names.items():
        matcher.add(label, list(map(nlp.make_doc, phrases)))
        known[label] = set(phrases)
    for doc in docs:
        found: dict[tuple[int, int], list[str]] = {}
        for key, start, end in matcher(doc):
            label, text = nlp.vocab.strings[key], doc[start:end].text
            if not known[label].isdisjoint((text, text.lower())):
                found.setdefault((start, end), []).append(label)
        longest = filter_spans([doc[start:end] for start, end in found])
        spans = [(x, label) for x in longest for label in found[x.start, x.end]]
        certain, several = list[Span](), list[Span]()
        for x, label in spans:
            part = certain if len(found[x.start, x.end]) == 1 else several
            part.append(Span(doc, x.start, x.end, label=label))
        doc.set_ents(certain, default="missing")
        if several:
            doc.spans[AMBIGUOUS] = several
        yield doc
