"""Write the card of a pipeline, and build its wheel.

    python -m models.package SOURCE WORK CORPORA

SOURCE: a folder of models: `meta.json`, whose `examples` are texts and whose `promise`, if any, the
pipeline keeps from the start; and `card.md`, the card's text about data and limits. WORK: where the
steps ran. The licences of all sources go into the wheel; a missing one is an error.
"""

import argparse
import json
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import spacy
import srsly
from spacy.cli.package import package
from spacy.language import Language
from spacy.tokens import Doc

from bcrf import __version__
from bcrf.io.hashes import hash_files
from bcrf.io.text import find_file
from spacy_bcrf.loading import find_labelers, make_examples
from spacy_bcrf.promises.control import measure_promises
from spacy_bcrf.readers.doc_files import read_docs
from spacy_bcrf.serve.pages.report_page import promise_table

from .page import note_differences

SCORES = {"precision": "ents_p", "recall": "ents_r", "f": "ents_f"}
"""Names of the scores in spaCy's meta data, by those of `report`."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("source", "work", "corpora"):
        parser.add_argument(name, type=Path)
    args = parser.parse_args()
    meta = srsly.read_json(args.source / "meta.json")
    try:
        licences = "\n".join(read_licences(args.source, args.corpora, meta["sources"]))
    except ValueError as error:
        sys.exit(str(error))
    nlp = spacy.load(args.work / "controlled")
    judged = spacy.load(args.work / "judged")
    # The documents with odd numbers of a fold made the promises.
    step = 1 if (args.work / "corpus/test.spacy").exists() else 2
    test = list(read_docs(args.work / "judged.spacy", nlp.vocab))[::step]
    examples, active = meta.pop("examples"), meta.pop("promise", None)
    meta.pop("covered", None)
    for name, pipe in find_labelers(nlp).items():
        pipe.control = nlp.meta["promises"][name][active] if active else None
    scores = srsly.read_json(args.work / "report.json")["scores"]["exact"][0]
    nlp.meta.update(meta)
    nlp.meta["version"] = __version__
    nlp.meta["performance"] = {SCORES[name]: scores[name]["value"] for name in SCORES}
    nlp.meta["performance"]["speed"] = measure_speed(nlp, [doc.text for doc in test])
    files = args.work / "corpus/train"
    names = sorted(path.stem for path in files.iterdir())
    nlp.meta["training_data"] = {"files": names, "sha256": hash_files(files)}
    nlp.meta["sources"] = [{k: v for k, v in x.items() if k != "file"} for x in meta["sources"]]
    folder = args.work / "package"
    shutil.rmtree(folder, ignore_errors=True)
    pipeline = folder / "pipeline"
    folder.mkdir()
    # Loading needs the words of the training data for nothing.
    nlp.to_disk(pipeline, exclude=["vocab"])
    promises = describe_promises(judged, test)
    card = write_card(nlp, examples, promises, args.source / "card.md", args.work / "report.md")
    (pipeline / "README.md").write_text(card, "utf8")
    (pipeline / "LICENSES_SOURCES").write_text(licences, "utf8")
    shutil.copy(args.source / "LICENSE", pipeline)
    package(pipeline, folder, create_sdist=False, create_wheel=True, force=True)
    for note in note_differences(args.work.resolve()):
        print(note)


def read_licences(source: Path, corpora: Path, sources: Sequence[dict[str, str]]) -> Iterator[str]:
    """Yield the attribution and licence of each source. ValueError names a file that is missing.

    sources: of the meta data. `file` is the licence in the folder of corpora, or in SOURCE with the
    prefix "./". A source whose licence asks for no copy has none.
    """
    if not (source / "LICENSE").is_file():
        raise ValueError(f"{source / 'LICENSE'}: the licence of the pipeline is missing")
    for one in sources:
        yield f"{one['name']}, by {one['author']}\n{one['url']}\nLicence: {one['license']}\n"
        if "file" in one:
            path = find_file((source if one["file"].startswith("./") else corpora) / one["file"])
            if not path.is_file():
                raise ValueError(
                    f"{path}: the licence of {one['name']} is missing; packaging stops"
                )
            yield path.read_text("utf8")


def measure_speed(nlp: Language, texts: Sequence[str]) -> float:
    """Return the words/s from texts, on one thread: the best of three runs."""
    texts = list(texts) * max(1, 2000 // len(texts))
    seconds, n_words = [], 0
    for _ in range(3):
        start = time.process_time()
        n_words = sum(map(len, nlp.pipe(texts)))
        seconds.append(time.process_time() - start)
    return n_words / min(seconds)


def write_card(
    nlp: Language, examples: Sequence[str], promises: Iterable[str], text: Path, report: Path
) -> str:
    """Return the README of the package. promises: lines of Markdown."""
    meta, (pipe_name, pipe) = nlp.meta, next(iter(find_labelers(nlp).items()))
    name = f"{meta['lang']}_{meta['name']}"
    key = nlp.config["components"][pipe_name].get("spans_key")
    group = f'spans["{key}"]' if key else "ents"
    lines = [
        f"# {name}",
        "",
        meta["description"],
        "",
        "```python",
        "import spacy",
        "",
        f'nlp = spacy.load("{name}")',
    ]
    for example in examples:
        lines += [f"doc = nlp({json.dumps(example, ensure_ascii=False)})"]
        lines += [f"for ent in doc.{group}:"]
        found = pipe.codec.find_spans(nlp(example))
        # An entity of an earlier component has no probability.
        is_certain = any(ent._.confidence is None for ent in found)
        p = "ent._.confidence or 1" if is_certain else "ent._.confidence"
        lines += [f'    print(ent.text, ent.label_, round({p}, 2), sep=" | ")']
        lines += [
            f"# {ent.text} | {ent.label_} | {round(ent._.confidence or 1, 2)}" for ent in found
        ]
    lines += ["```", "", "## Scores", report.read_text("utf8")]
    lines += [f"From texts, on one thread: {meta['performance']['speed']:,.0f} words/s.", ""]
    lines += ["## Promises", *promises, "", text.read_text("utf8")]
    lines += ["## Sources", "", f"The licence of this pipeline is {meta['license']}. Sources:", ""]
    lines += [
        f"- [{x['name']}]({x['url']}) by {x['author']}, {x['license']}" for x in meta["sources"]
    ]
    names, digest = meta["training_data"].values()
    lines += ["", f"SHA-256 of the training files {', '.join(names)}: `{digest}`", ""]
    return "\n".join(lines)


def describe_promises(nlp: Language, test: Sequence[Doc]) -> Iterator[str]:
    """Yield what the promises of a pipeline reach on test documents, as Markdown."""
    pipes = find_labelers(nlp)
    first = next(iter(pipes))
    *_, last = nlp.meta["promises"][first] or ["recall"]
    yield (
        "Thresholds on posteriors keep each promise for new documents from the same source as the "
        "held-out documents of training, with confidence 95%. To make one: "
        f'`nlp.get_pipe("{first}").control = nlp.meta["promises"]["{first}"]["{last}"]`. '
        "Covered: found spans of any label cover the words of a gold span, as for `redact`; "
        "else a found span has its bounds and label."
    )
    for name, pipe in pipes.items():
        active, rows = pipe.control, []
        for promise in nlp.meta["promises"][name].values():
            pipe.control = promise
            for row in measure_promises(pipe, make_examples(nlp, name, test)):
                is_of_all = len(row["labels"]) == len(pipe.labels)
                rows.append(row | {"labels": ["all"]} if is_of_all else row)
        pipe.control = active
        yield from ["", *promise_table(rows)]
        if notes := nlp.meta["promised_on"][name]["notes"]:
            yield from ["", "Not promised:", "", *(f"- {note}" for note in notes)]


if __name__ == "__main__":
    main()
