"""The figures that pages quote are those of benchmarks/results."""

import re

import pytest

import bcrf
from benchmarks import pages
from lab import ROOT
from lab.labeling_tasks import TASKS


def figure(name, column, title=None, **row):
    """Return a function that reads the first number of a cell of a result. One row has `row`."""

    def read():
        (found,) = pages.rows_of(name, title, **row)
        return pages.number(found[column])

    return read


def merged(method, part="test"):
    """Return a function that reads F of a method of `experiments.weak_supervision`."""
    return figure("weak_supervision", part, **{"from": method})


def ratios(corpora, upper, lower):
    """Return functions: the least and the greatest ratio of us/word of two systems."""

    def read():
        for corpus in corpora:
            both = [
                figure("accuracy", "us/word", corpus=corpus, system=s)() for s in (upper, lower)
            ]
            yield both[0] / both[1]

    return (lambda: min(read())), (lambda: max(read()))


def pipeline_score(name, column="F on test"):
    """Return a function that reads a figure of a pipeline that ships from the page of cards."""

    def read():
        page = (ROOT / "docs/pipelines.md").read_text("utf8")
        (head,) = re.findall(r"^\| pipeline \|.*", page, re.M)
        (row,) = re.findall(rf"^\| \[{name}\]\(#{name}\) \|.*", page, re.M)
        return pages.number(row.split("|")[head.split("|").index(f" {column} ")])

    return read


def in_page(page, pattern):
    """Return a function that reads the number that a pattern finds in a page."""

    def read():
        (found,) = re.findall(pattern, (ROOT / page).read_text("utf8"))
        return pages.number(found)

    return read


def accuracy(corpus, system, column="score"):
    return figure("accuracy", column, corpus=corpus, system=system)


def leaks(documents):
    """Return the numbers of a row in the table of leaks."""
    page = (ROOT / "docs/redaction.md").read_text("utf8")
    (row,) = re.findall(rf"^\| (.*{documents}.*\|$)", page, re.M)
    numbers = re.findall(r"[\d,.]*\d", row)
    return [lambda n=n: float(n.replace(",", "")) for n in numbers]


def shares(annotated, column):
    return figure("annotated_share", column, annotated=annotated)


def faster(pipeline):
    return figure("acceleration", "x predict", pipeline=pipeline)


def sklearn(corpus, column, library="ours, defaults"):
    return figure("crfsuite_interface", column, corpus=corpus, library=library)


def torch(step, tags):
    return figure("interfaces", "pytorch-crf", step=step, tags=tags, batch="64")


def ece(on, column, corpus="jnlpba"):
    return figure("calibration", column, corpus=corpus, **{"measured on": on})


def control(column, promise, corpus="jnlpba"):
    return figure("control", column, corpus=corpus, promise=promise, **{"max units": "1"})


def kept(promise):
    return control("kept", promise)


def granted(corpus, promise):
    return control("splits with a threshold", promise, corpus)


def candidates(promise, corpus="jnlpba"):
    return control("spans per sentence", promise, corpus)


OTHER_HALF = "dev, other half"
JUDGMENTS, MAILS = leaks("judgments of the European"), leaks("of 492 mails")
CRF_SPEED = ratios(("wnut17", "uner", "ewt-pos"), "crfsuite", "sparse")
JNLPBA_SUM = [
    figure("combined", "test", corpus="JNLPBA", system=s)
    for s in ("stacked chain", "network with vectors", "sum")
]
SKLEARN = [sklearn("CoNLL-2000", c) for c in ("times as fast", "as fast", "F")]
SKLEARN.append(sklearn("CoNLL-2000", "F", "sklearn-crfsuite"))
QUICKSTART = [
    ("{:.1f} on the test part", figure("quickstart", "entities, F", system="ours")),
    ("on the same files: {:.1f}", figure("quickstart", "entities, F", system="spaCy")),
]
FALSE_ALARM, ALARM = (
    figure("drift", "runs with an alarm", "Drift", **{"new documents": d})
    for d in ("the other half of EWT, 1,039 sentences", "200 sentences of WNUT17")
)
CLAIMS = {
    "README.md": [
        (
            "finds {:.0f} types of personal data in Spanish clinical notes. A pipeline that "
            "learned only the train part of MEDDOCAN has F {:.1f} on dev. With a promise of "
            "recall, `redact` left none of {:.0f} names of patients in {:.0f} notes of dev, and "
            "replaced {:.1f}% of the other characters",
            in_page("docs/pipelines.md", r"Spanish clinical notes: (\d+) types"),
            pipeline_score("es_bcrf_clinical"),
            in_page("docs/redaction.md", r"none of (\d+) names of patients. It replaces 0"),
            in_page("docs/redaction.md", r"spans in (\d+) notes of dev"),
            in_page("docs/redaction.md", r"It replaces (0\.\d)% of the other characters"),
        ),
        (
            "organizations with F {:.1f}. It takes {:.1f} MB and reads {:,.0f} words per second on"
            " one thread. The expected calibration error of its probabilities is {:.3f}",
            *(
                pipeline_score("en_bcrf_web", column)
                for column in ("F on test", "MB", "words/s", "calibration error")
            ),
        ),
        ("organizations with F {:.1f}. `en_bcrf_pii`", pipeline_score("en_bcrf_web")),
        (
            " F {:.1f}, German F {:.1f}, US addresses: all {:.0f} right, as with usaddress;",
            pipeline_score("en_bcrf_web"),
            pipeline_score("de_bcrf_sm"),
            in_page("docs/pipelines.md", r"100% of (\d+) addresses"),
        ),
        ("F {:.1f} on synthetic sentences, on whose generator", pipeline_score("en_bcrf_pii")),
        ("[{:.0f} judgments]", JUDGMENTS[0]),
        (
            ": {:.0f} of {:.0f}, {:.1f}%; {:.0f} mails: {:.0f} of {:,.0f}, "
            "{:.1f}% | {:.0f}, {:.1f}%; {:.0f}, {:.1f}%",
            *(JUDGMENTS[k] for k in (2, 1, 4)),
            *(MAILS[k] for k in (0, 2, 1, 4)),
            *(JUDGMENTS[k] for k in (5, 7)),
            *(MAILS[k] for k in (5, 7)),
        ),
        (
            "en_bcrf_pii: {:.1f} MB, {:,.0f} on one thread",
            pipeline_score("en_bcrf_pii", "MB"),
            pipeline_score("en_bcrf_pii", "words/s"),
        ),
        ("recall 0.95 there takes {:.0f} candidates per sentence", candidates("recall 0.95")),
        ("a precision of 0.8 in {:.0f} of 200 splits", granted("wnut17", "precision 0.8")),
        (
            "precision 0.8 was promised with confidence 95%, and kept in all of {:.0f}",
            figure(
                "control",
                "splits with a threshold",
                corpus="jnlpba",
                promise="precision 0.8",
                **{"max units": "1", "kept": "100.0%"},
            ),
        ),
        ("F is {:.0f} with full annotation", shares("100%", "partial")),
        (
            "one of the five labels annotated in each sentence, it is {:.0f}",
            shares("20%", "partial"),
        ),
        ('missing annotation counts as "no entity", it is {:.0f}', shares("20%", "missing as O")),
        ("a fifth of them gives {:.0f}", shares("20%", "fewer sentences")),
        *QUICKSTART,
        (
            "Trained on {:,} sentences of English web text, a linear chain with word clusters has"
            " F {:.1f} for entities",
            lambda: TASKS["uner"].parts["train"].stop,
            accuracy("uner", "clusters"),
        ),
        ("after 1,000 steps, has {:.1f}", accuracy("uner", "spacy")),
        (
            "`en_core_web_sm`, unchanged, has {:.1f}",
            in_page("docs/bring-your-model.md", r"\| English \| 200 \| ([\d.]+) \|"),
        ),
        (
            "tags {:.1f}% of the tokens right, `tagger` {:.1f}%",
            accuracy("ewt-pos", "clusters"),
            accuracy("ewt-pos", "spacy"),
        ),
        (
            "a chain predicts {:.0f} to {:.0f} times as fast",
            *ratios(("wnut17", "uner", "ewt-pos"), "spacy", "sparse"),
        ),
        ("spaCy's CNN predict {} and {} times as fast", faster("bcrf_ner"), faster("bcrf_tagger")),
        (
            "spaCy's own components {} and {} times as fast",
            faster("ner, accelerated"),
            faster("tagger, accelerated"),
        ),
        (
            "whole `en_core_web_sm` {} times, with equal outputs",
            figure("whole_pipeline", "times as fast", pipeline="all components"),
        ),
        (
            "F on WNUT17 is then {:.0f} to {:.0f}",
            accuracy("wnut17", "neural"),
            accuracy("wnut17", "sparse"),
        ),
        (
            "with Brown clusters {:.0f}",
            accuracy("wnut17", "clusters"),
        ),
        (
            "{:.1f} to {:.1f} ms",
            lambda: figure("acceleration", "one text", pipeline="bcrf_tagger")() / 1000,
            lambda: figure("acceleration", "one text", pipeline="bcrf_ner")() / 1000,
        ),
    ],
    "docs/first-model.md": [
        (
            "F is {:.1f} for entities; spaCy's `ner` has {:.1f} on the same files",
            *(figure("quickstart", "entities, F", system=s) for s in ("ours", "spaCy")),
        )
    ],
    "docs/faq.md": [
        (
            "{:.0f} to {:.0f} times as fast]",
            torch("loss, gradient", "17"),
            torch("decode", "69"),
        ),
        ("trains {} times as fast and predicts {} times as fast, at F {} against {}", *SKLEARN),
    ],
    "docs/torch.md": [
        (
            "loss and gradient are {:.0f} to {:.0f} times as fast as pytorch-crf, "
            "and decoding {:.0f} to {:.0f} times",
            *(torch("loss, gradient", tags) for tags in ("17", "69")),
            *(torch("decode", tags) for tags in ("9", "69")),
        )
    ],
    "docs/calibrate.md": [
        (
            "falls from {} to {} by label",
            ece(OTHER_HALF, "not calibrated"),
            ece(OTHER_HALF, "by label"),
        ),
        ("it falls from {} to {}", ece("test", "not calibrated"), ece("test", "temperature")),
    ],
    "docs/promises.md": [
        (
            "and {} reached on test",
            figure(
                "drift",
                "reached on test",
                "Promises on another source",
                corpus="JNLPBA",
                **{"promised on dev": "precision 0.8"},
            ),
        ),
        ("kept a promise in {} to 100% of 200 splits", kept("recall 0.95")),
        ("recall 0.95 takes {:.0f} candidates per sentence", candidates("recall 0.95")),
        (
            "recall 0.9 takes {:.0f}, and `control` granted a precision of 0.8 in {:.0f} of 200",
            candidates("recall 0.9", "wnut17"),
            granted("wnut17", "precision 0.8"),
        ),
    ],
    "docs/weak-supervision.md": [
        (
            "F on test is {:.1f}. The tags with most votes have {:.1f}, the spans with most votes "
            "{:.1f}",
            merged("aggregate"),
            merged("tags with most votes"),
            merged("spans with most votes"),
        ),
    ],
    "docs/drift.md": [("in all of {:,.0f} runs; {:.0f} of 1,000", ALARM, FALSE_ALARM)],
    "docs/choose-model.md": [
        (
            "chain has {:.2f}% accuracy on test, with clusters {:.2f}%, and a CNN {:.2f}%",
            *(accuracy("ewt-pos", s) for s in ("sparse", "clusters", "neural")),
        ),
        (
            "F {:.2f} ± 0.76 and {:.2f} ± 0.61",
            *(figure("which_head", "JNLPBA F", head=h) for h in ("CRF", "BCRF")),
        ),
        ("chain with F {:.2f} and a network with {:.2f} together have {:.2f}", *JNLPBA_SUM),
    ],
    "docs/migrate.md": [
        (
            "`ner` predicts {} times as fast, one with `tagger` {} times",
            faster("ner, accelerated"),
            faster("tagger, accelerated"),
        )
    ],
    "docs/from-sklearn-crfsuite.md": [
        (
            "F is {} on CoNLL-2000 and {} on JNLPBA",
            sklearn("CoNLL-2000", "F"),
            sklearn("JNLPBA", "F"),
        ),
        (
            "trains {} and {} times as fast, and predicts {} and {} times",
            *(
                sklearn(c, k)
                for k in ("times as fast", "as fast")
                for c in ("CoNLL-2000", "JNLPBA")
            ),
        ),
    ],
    "docs/benchmarks.md": [
        (
            "chain takes {} us per word from texts, {} times",
            figure("overhead", "us/word", "From texts", pipeline="default chain"),
            figure("overhead", "times spacy.blank", "From texts", pipeline="default chain"),
        ),
        (
            "at {} million characters per second, `nlp.pipe` at {}",
            *(
                figure("overhead", "million characters/s", "Segmenter", pipeline=p)
                for p in ("cut", "nlp.pipe")
            ),
        ),
        (
            "200,000 documents peaks at {:.0f} MiB, on 20,000 at {:.0f}",
            *(figure("streaming", f"{n} documents", MiB="train") for n in ("200,000", "20,000")),
        ),
        (
            "1,000,000 names costs {:.0f} MB and {} us per word",
            *(
                figure("gazetteers", c, **{"matched by": "lowercase"})
                for c in ("MB", "us/word more")
            ),
        ),
    ],
    "docs/results.md": [
        ("In {:.0f} of 1,000 runs it did; on WNUT17 all {:,.0f} runs", FALSE_ALARM, ALARM),
        (
            "with some labels: {} against {} at 20%",
            shares("20%", "fewer sentences"),
            shares("20%", "partial"),
        ),
    ],
    "docs/other-libraries.md": [("predicts {:.1f} to {:.0f} times", *CRF_SPEED)],
    "docs/partial-annotation.md": [
        (
            "F on test is {:.0f}, with all five {:.0f}",
            shares("20%", "partial"),
            shares("100%", "partial"),
        ),
        ("a fifth of the sentences gives {:.0f}", shares("20%", "fewer sentences")),
    ],
}
NOT_MEASURED = [
    "Le Roux 2025",
    "Python 3.10",
    "C++17",
    "spaCy 3.8",
    "860 entities",
    "threshold for 95% recall",
    "4,000 sentences of the",
    "spacy-crfsuite 1.7",
    "flair 0.15",
    "GLiNER 0.2",
    "last release 2023",
    "Presidio 2.2",
    "OpenMed 3.1",
    "edsnlp 0.23",
    "WNUT17",
    "[0.85]",
    "mean of 1 - p(O)",
    "8 kinds",
    "35 languages",
    "1.5 billion parameters, 50 million active",
    "Apache 2.0",
    "November 2026",
    "[56.5]",
    "CC BY-SA 4.0",
    "CC BY 4.0",
    "CC0",
]
"""Numbers of the README that are names, versions, or figures of others with a link."""


@pytest.mark.parametrize("page", CLAIMS)
def test_a_page_quotes_the_figures_of_the_results(page):
    text = " ".join((ROOT / page).read_text("utf8").split())
    for claim, *figures in CLAIMS[page]:
        assert claim.format(*(read() for read in figures)) in text


def prose(page):
    """Return the text of a page without code blocks and targets of links."""
    text = re.sub(r"^```.*?^```", "", (ROOT / page).read_text("utf8"), flags=re.M | re.S)
    return " ".join(re.sub(r"\]\([^)]*\)", "]", text).split())


def test_each_figure_of_the_readme_is_a_claim_or_named_as_not_measured():
    text = prose("README.md")
    claims = [
        claim.format(*(read() for read in figures)) for claim, *figures in CLAIMS["README.md"]
    ]
    for known in (*claims, *NOT_MEASURED):
        assert known in text
        text = text.replace(known, "")
    assert not re.findall(r".{0,40}\d.{0,40}", text)


def test_the_figures_of_the_readme_are_of_this_version(monkeypatch):
    """Other pages name the version of an older figure; the README names none."""
    read_results, machines = pages.read_results, {}

    def read(name):
        found = read_results(name)
        machines[name] = found["machine"]
        return found

    monkeypatch.setattr(pages, "read_results", read)
    for _, *figures in CLAIMS["README.md"]:
        for figure_of in figures:
            figure_of()
    version = ".".join(bcrf.__version__.split(".")[:2])
    old = {name for name, of in machines.items() if f"spacy-bcrf {version}." not in of}
    assert machines and not old


TABLES = [
    ("docs/active-learning.md", "active_learning"),
    ("docs/linear-chain.md", "two_pass"),
    ("docs/new-labels.md", "extend"),
    ("docs/redaction.md#leakage-report", "redaction"),
    ("docs/scale.md", "scale"),
    ("docs/spans.md", "spans"),
    ("docs/streaming.md", "streams"),
]


@pytest.mark.parametrize("page, name", TABLES)
def test_the_rows_of_a_table_are_rows_of_the_result(page, name):
    """The numbers with a decimal point of a row are in one row of the result, rounded.

    A page may name the section of the table.
    """
    path, _, section = page.partition("#")
    text = (ROOT / path).read_text("utf8")
    if section:
        text = text.split(f"## {section.replace('-', ' ').capitalize()}\n")[1].split("\n## ")[0]
    found = [
        [float(number) for cell in row for number in re.findall(r"\d+\.\d+", cell)]
        for table in pages.read_results(name)["tables"]
        for row in table["rows"]
    ]
    lines = re.findall(r"^\|.*\d\.\d.*\|$", text, re.M)
    assert lines
    for line in lines:
        quoted = [(float(n), len(n.partition(".")[2])) for n in re.findall(r"\d+\.\d+", line)]
        assert any(
            all(any(abs(n - x) <= 0.5 / 10**d + 1e-9 for x in row) for n, d in quoted)
            for row in found
        ), line
