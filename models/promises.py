"""Calibrate a pipeline, and find the thresholds of its promises, on held-out documents.

    python -m models.promises calibrate CORPUS TRAINED TRAINED/final OUTPUT
    python -m models.promises control CORPUS TRAINED CALIBRATED OUTPUT [--meta META]
    python -m models.promises judge CORPUS TRAINED CONTROLLED OUTPUT

CORPUS, TRAINED: see `models.train`. A pipeline that did not learn it judges each document
(cross-fitting). Of each two documents, the first calibrates, and the promises rest on the second.
`nlp.meta["promises"]` has them by component: values of the setting `control`. `promised_on` has the
numbers of documents with units of the labels, and why a promise is not made. META is the meta data
of a folder of models, whose `covered` lists values of covered promises.

`judge` copies a pipeline and CORPUS/test.spacy to OUTPUT and OUTPUT.spacy, for the card. Without a
test part, they are the pipeline of the first fold, with the same settings, and the fold.
"""

import argparse
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import spacy
import srsly
from spacy.language import Language
from spacy.tokens import Doc

from spacy_bcrf.layers.decoding import F
from spacy_bcrf.loading import find_labelers, make_examples
from spacy_bcrf.pipeline.calibration import Calibration
from spacy_bcrf.pipeline.held_out import hash_texts
from spacy_bcrf.pipeline.settings import Control
from spacy_bcrf.promises.evidence import SPANS, Evidence, Kept, Loss, Promise, fit_threshold
from spacy_bcrf.promises.kinds import watch_kind
from spacy_bcrf.promises.risk import fewest_documents
from spacy_bcrf.readers.doc_files import read_docs

from .train import find_held_out, find_kinds, read_held_out

COVERED = Loss(covered=True)
OF_KINDS = (0.95, 0.9, 0.85, 0.8)
"""Recalls to promise for a kind of document. The first one that can be kept is stored."""
LEAST = 0.01
"""Smallest threshold of such a promise: `redact` with a smaller one would replace too much."""
PROMISES = {"precision": ("precision", 0.9, SPANS), "recall": ("recall", 0.95, SPANS)}
"""Kind, value and loss of each promise, by its name in the meta data."""
CONFIDENCE = 0.95

HeldOut = Sequence[tuple[Language, list[Doc]]]
"""Pipelines, each with documents that it did not learn."""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("step", choices=["calibrate", "control", "judge"])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("trained", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--meta", type=Path)
    args = parser.parse_args(arguments)
    nlp = spacy.load(args.model)
    held_out = read_held_out(args.corpus, args.trained)
    if args.step == "calibrate":
        calibrate(nlp, [(fold, docs[::2]) for fold, docs in held_out])
    elif args.step == "control":
        meta = srsly.read_json(args.meta) if args.meta else {}
        values = meta.get("covered", [0.95])
        control(nlp, [(fold, docs[1::2]) for fold, docs in held_out], values)
        control_kinds(nlp, args.corpus, args.trained)
    else:
        nlp = judge(nlp, args.corpus, args.trained, args.output)
    nlp.to_disk(args.output)


def calibrate(nlp: Language, held_out: HeldOut) -> None:
    """Set the temperature of each component of ours, which writes confidences from then on."""
    for name, pipe in find_labelers(nlp).items():
        folds: Any = [(fold, fold.get_pipe(name), docs) for fold, docs in held_out]
        found, *others = (
            Calibration(of_fold, make_examples(fold, name, docs), ignore_annotation=False)
            for fold, of_fold, docs in folds
        )
        for other in others:
            found.extend(other)
        # spaCy's files keep fewer digits than a float.
        pipe.temperature = round(found.fit(), 6)
        if pipe.labeling.decoder == F:
            pipe.threshold = found.fit_threshold(pipe.temperature)
        pipe.annotate = ("confidence",)
        texts = hash_texts([doc for *_, docs in folds for doc in docs])
        pipe.change_setting("calibrated_on", texts)
        print(f"{name}: temperature {pipe.temperature:.3f} of {len(found.correct):,} predictions")


def control(nlp: Language, held_out: HeldOut, covered: Sequence[float]) -> None:
    """Store the promises of each component of ours, of all labels together and of single labels.

    Covered promises, one for each value, are of all labels together. A promise that no threshold
    keeps is left out. Each other promise holds with CONFIDENCE. The promises of single labels hold
    with CONFIDENCE together.
    """
    nlp.meta["promises"], nlp.meta["promised_on"] = {}, {}
    # spaCy's JSON reads 0.95 as 0.9500000000000001.
    names = ["covered", *(f"covered {value:g}" for value in covered[1:])]
    all_promises = PROMISES | {
        name: ("recall", value, Loss(covered=True))
        for name, value in zip(names, covered, strict=True)
    }
    for name, pipe in find_labelers(nlp).items():
        promises: dict[str, Any] = {}
        promised_on: dict[str, Any] = {"notes": []}
        texts = hash_texts([doc for _, docs in held_out for doc in docs])
        for promise, (kind, value, loss) in all_promises.items():
            evidence = find_evidence(pipe, kind, loss.covered, held_out)
            single: list[tuple[str, ...]] = [(label,) for label in pipe.labels]
            groups = {promise: [tuple(pipe.labels)]}
            if not loss.covered:
                groups[f"{promise} by label"] = single
            for title, labels in groups.items():
                level = (1 - CONFIDENCE) / len(labels)
                fewest = fewest_documents(1 - value, level)
                kept, rare = [], []
                for one in labels:
                    units = evidence.of(one)
                    if (n := len(np.unique(units.docs))) < fewest:
                        rare.append(f"{', '.join(one)} ({n})")
                        continue
                    try:
                        kept.append(
                            fit_threshold(units, kind, Promise(one, value, level), loss, name)
                        )
                    except ValueError as error:
                        promised_on["notes"].append(str(error))
                if rare:
                    few = f"{title}: too few of {fewest} documents with {', '.join(rare)}"
                    promised_on["notes"].append(few)
                if kept:
                    promises[title] = asdict(as_control(kind, kept, loss, pipe.temperature, texts))
                    promised_on[title] = {", ".join(x.promise.labels): x.n_docs for x in kept}
        nlp.meta["promises"][name], nlp.meta["promised_on"][name] = promises, promised_on
        n_notes = len(promised_on["notes"])
        print(f"{name}: promises: {', '.join(promises) or 'none'}. Left out, or rare: {n_notes}")


def judge(nlp: Language, corpus: Path, trained: Path, output: Path) -> Language:
    """Return a pipeline with the settings of `nlp` that did not learn the documents it writes."""
    test = corpus / "test.spacy"
    judged = nlp
    if not test.exists():
        name, test = next(iter(find_held_out(corpus).items()))
        judged = spacy.load(trained / name)
        judged.meta |= {key: nlp.meta[key] for key in ("promises", "promised_on")}
        for name, pipe in find_labelers(nlp).items():
            set_as(judged.get_pipe(name), pipe)
    shutil.copy(test, output.with_suffix(".spacy"))
    return judged


def control_kinds(nlp: Language, corpus: Path, trained: Path) -> None:
    """Store a covered promise for each kind of document: of the highest recall that it can keep.

    It has a watch of `monitor`, by which `redact` finds that texts are of another kind. Documents:
    see `find_kinds`. The watch is of one pipeline, on all documents that it did not learn.
    """
    watches: dict[str, dict[str, Any]] = {name: {} for name in find_labelers(nlp)}
    nlp.meta["watches"] = watches
    kinds: dict[str, list[tuple[Language, list[Doc]]]] = {}
    for kind, name, path in find_kinds(corpus):
        one = nlp if name == "final" else spacy.load(trained / name)
        of_kind = kinds.setdefault(kind, [])
        of_kind.append((one, list(read_docs(path, one.vocab))))
    for kind, held_out in kinds.items():
        docs = [doc for _, docs in held_out for doc in docs]
        first = held_out[0][0]
        watched = [doc for one, docs in held_out if one in (first, nlp) for doc in docs]
        for name, pipe in find_labelers(nlp).items():
            evidence = find_evidence(pipe, "recall", True, held_out)
            labels, notes = tuple(pipe.labels), nlp.meta["promised_on"][name]["notes"]
            for value in OF_KINDS:
                promise = Promise(labels, value, 1 - CONFIDENCE)
                try:
                    kept = fit_threshold(evidence.units, "recall", promise, COVERED, name)
                except ValueError as error:
                    notes.append(f"{kind}: {error}")
                    continue
                if kept.threshold < LEAST:
                    notes.append(f"{kind}: recall {value:g} needs {kept.threshold:.1g}")
                    continue
                found = as_control("recall", [kept], COVERED, pipe.temperature, hash_texts(docs))
                # As spaCy's files have it, with fewer digits: a watch knows its promise.
                saved = srsly.json_loads(srsly.json_dumps(asdict(found)))
                try:
                    watches[name][kind] = watch_kind(first, name, saved, watched)
                except ValueError as error:  # too few documents
                    notes.append(f"{kind}: {error}")
                    break
                nlp.meta["promises"][name][kind] = saved
                nlp.meta["promised_on"][name][kind] = {", ".join(labels): kept.n_docs}
                print(name, kind, kept.promise.value, kept.threshold, kept.measured)
                break


def find_evidence(shipped: Any, kind: str, covered: bool, held_out: HeldOut) -> Evidence:
    """Return the units of all held-out documents with the settings of the pipeline that ships."""
    found: list[Evidence] = []
    for fold, docs in held_out:
        pipe: Any = fold.get_pipe(shipped.name)
        set_as(pipe, shipped)
        found.append(Evidence(pipe, make_examples(fold, pipe.name, docs), kind, covered))
    first, *others = found
    for other in others:
        first.extend(other)
    return first


def set_as(pipe: Any, shipped: Any) -> None:
    """Set what `calibrate` has set: a watch of other settings would not fit what ships."""
    pipe.temperature, pipe.threshold = shipped.temperature, shipped.threshold


def as_control(
    kind: str, kept: Sequence[Kept], loss: Loss, temperature: float, texts: tuple[str, ...]
) -> Control:
    rows = [(label, i, one) for i, one in enumerate(kept) for label in one.promise.labels]
    return Control(
        kind,
        tuple(label for label, *_ in rows),
        tuple(one.threshold for *_, one in rows),
        temperature,
        tuple(one.promise.value for *_, one in rows),
        tuple(i for _, i, _ in rows),
        CONFIDENCE,
        fitted_on=texts,
        **asdict(loss),
    )


if __name__ == "__main__":
    main()
