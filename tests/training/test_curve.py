"""Learning curves: known power laws, intervals of simulated scores, and a small corpus."""

import json
import re
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc, DocBin

from spacy_bcrf.cli.curve_cli import curve_cli
from spacy_bcrf.corpora.convert import convert
from spacy_bcrf.judging.folds import train_sparse_chain
from spacy_bcrf.judging.report import report
from spacy_bcrf.training.curve import (
    POWERS,
    LearningCurve,
    Point,
    curve,
    fit_curve,
    fit_power_law,
    value,
)

SAMPLE = Path(__file__).resolve().parents[2] / "assets/sample"
SIZES = np.array([60, 120, 240, 480, 960])


@pytest.mark.parametrize("power", POWERS[::7])
@pytest.mark.parametrize("ceiling", [0.5, 0.93, 1.0])
def test_a_power_law_is_recovered(power, ceiling):
    scale = 0.4 * 60**power
    f = ceiling - scale * SIZES.astype(float) ** -power
    weights = np.array([1.0, 2, 3, 4, 5])
    found = fit_power_law(SIZES, f[None], weights)
    assert found[0] == pytest.approx([ceiling, scale, power], rel=1e-5)
    more = np.array([2_000, 10_000])
    assert value(found, more)[0] == pytest.approx(ceiling - scale * more.astype(float) ** -power)


def test_the_curve_never_falls_and_stays_below_1():
    f = np.array([[0.6, 0.59, 0.58, 0.57, 0.56], [0.1, 0.2, 0.4, 0.7, 0.99]])
    found = value(fit_power_law(SIZES, f, np.ones(5)), np.array([1_000, 10**6]))
    assert found[0] == pytest.approx([0.58, 0.58])
    assert (np.diff(found, axis=1) >= 0).all() and (found <= 1).all()


def simulate(rng, n_dev=400, repeats=3, spread=0.0):
    """Return counts by size of documents whose spans are found with the probability of a curve.

    spread: of that probability between parts, for the smallest ones.
    """
    counts = []
    for size, p in zip(SIZES, 0.85 - 2.5 * SIZES.astype(float) ** -0.5, strict=True):
        n = 1 if len(counts) == len(SIZES) - 1 else repeats
        gold = rng.integers(0, 4, n_dev) * np.ones((n, 1), dtype=int)
        moved = spread * np.sqrt(SIZES[0] / size) * rng.normal(size=(n, 1))
        found = rng.binomial(gold, (p + moved).clip(0, 1))
        counts.append(np.stack([gold, gold, found, found], -1).astype("float64"))
    return counts


@pytest.mark.parametrize("spread, least", [(0, 51), (0.06, 53)])
def test_the_intervals_cover_the_truth(spread, least):
    """A bootstrap of few parts, and of one part, leaves out the spread between parts."""
    rng = np.random.default_rng(0)
    truth = 0.85 - 2.5 * (SIZES[-1] * np.array([1.0, 2, 4])) ** -0.5
    hits = np.zeros(4)
    for _ in range(60):
        found = fit_curve("ner", SIZES, simulate(rng, spread=spread), np.random.default_rng(1))
        points = [found.measured[-1], *found.forecast]
        covered = [p.low <= x <= p.high for p, x in zip(points, truth, strict=True)]
        gain = found.gain.low <= truth[1] - truth[0] <= found.gain.high
        hits += [*covered, gain]
    # Intervals of 95%, of 60 uses.
    assert (hits >= least).all(), hits


def test_intervals_are_of_possible_f_and_of_many_documents():
    """Once, an interval ended at 102.2."""
    rng = np.random.default_rng(0)
    counts = [x.clip(min=1) for x in simulate(rng, n_dev=20)]
    for of_size, p in zip(counts, (0.1, 0.4, 0.9, 0.97, 1.0), strict=True):
        of_size[..., 2:] = of_size[..., :2] * (p + 0.3 * rng.normal(size=(len(of_size), 1, 1)))
        of_size[..., 2:] = of_size[..., 2:].clip(0, of_size[..., :2])
    found = fit_curve("ner", SIZES, counts, rng)
    assert all(p.low >= 0 and p.high <= 1 for p in [*found.measured, *found.forecast])
    one = fit_curve("ner", SIZES, [each[:, :1] for each in counts], rng)
    assert all("(" not in str(p) for p in [*one.measured, *one.forecast, one.gain])


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sample")
    for part in ("train", "dev"):
        convert([SAMPLE / f"{part}.conllu"], folder / f"{part}.spacy", lang="en")
    return folder


def read(path):
    return list(DocBin().from_disk(path).get_docs(spacy.blank("en").vocab))


def test_a_curve_of_a_corpus(parts):
    train, dev = (read(parts / f"{part}.spacy") for part in ("train", "dev"))
    found = curve(train, dev, shares=(0.25, 0.5, 1), repeats=2, lang="en")
    assert [point.n_docs for point in found.measured] == [78, 156, 313]
    assert [point.n_docs for point in found.forecast] == [626, 1252]
    labels = sorted({ent.label_ for doc in train for ent in doc.ents})
    nlp = train_sparse_chain(train, labels, lang="en")
    expected = report(nlp, dev, resamples=100).values["scores"]["exact"][0]["f"]["value"]
    assert found.measured[-1].f == pytest.approx(expected, abs=1e-6)
    assert all(point.low <= point.f <= point.high for point in found.measured)
    assert found.measured[0].f < found.measured[-1].f <= found.forecast[0].f
    values = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert values["measured"][2]["n_docs"] == 313
    assert "626" in found._repr_html_() and f"F {100 * expected:.1f} (" in repr(found)
    # One number for the F of all documents: the measured one.
    gain = f"twice as many raise the fitted curve by {100 * found.gain.f:.1f} ("
    assert f") with 313 documents; {gain}" in repr(found)
    figure = found.plot()
    assert figure.axes[0].get_xlabel() == "training documents"
    with pytest.raises(ValueError, match="2 documents are too few for a curve of three sizes"):
        curve(train[:2], dev)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"shares": (0.5, 1, 2)}, r"shares must be above 0 and at most 1, got \[0.5, 1, 2\]"),
        ({"shares": (0, 0.5, 1)}, "shares must be above 0"),
        ({"repeats": 0}, "repeats must be at least 1, got 0"),
    ],
)
def test_impossible_parts_are_named(parts, options, message):
    dev = read(parts / "dev.spacy")
    with pytest.raises(ValueError, match=message):
        curve(dev, dev, **options)


def test_the_largest_part_is_random_too(parts, monkeypatch):
    train, dev = (read(parts / f"{part}.spacy") for part in ("train", "dev"))
    taken = []

    def train_part(docs, *_):
        taken.append([doc.text for doc in docs])
        return train_sparse_chain(docs, ["PERSON"], "en")

    monkeypatch.setattr("spacy_bcrf.judging.folds.train_sparse_chain", train_part)
    # Copies count once.
    options = {"shares": (0.1, 0.2, 0.5), "repeats": 2, "lang": "en"}
    found = curve([*train, *train[:9]], [*dev, dev[0]], corpus="T", dev_corpus="D", **options)
    assert [re.split(" (?:are copies|is a copy)", note)[0] for note in found.notes] == [
        f"9 of {len(train) + 9} documents of T",
        f"1 of {len(dev) + 1} documents of D",
    ]
    assert [len(part) for part in taken] == [31, 31, 63, 63, 156, 156]
    assert taken[-1] != taken[-2] != [doc.text for doc in train[:156]]


def test_dev_documents_are_checked_before_a_training(parts, tmp_path):
    docs = read(parts / "dev.spacy")
    for name, found in {"none": [], "bare": [Doc(docs[0].vocab, words=["a"])]}.items():
        path = tmp_path / f"{name}.spacy"
        DocBin(docs=found).to_disk(path)
        with pytest.raises(ValueError, match=f"{name}.spacy"):
            curve_cli(parts / "train.spacy", path, lang="en")


def test_dev_documents_of_train_are_a_note(parts, monkeypatch, capsys):
    def fail(*args, **options):
        raise ValueError("stop")

    module = import_module("spacy_bcrf.training.curve")
    monkeypatch.setattr(module, "curve", fail)
    with pytest.raises(ValueError, match="stop"):
        curve_cli(parts / "train.spacy", parts / "train.spacy")
    assert " are in " in capsys.readouterr().err
    with pytest.raises(ValueError, match="stop"):
        curve_cli(parts / "train.spacy", parts / "dev.spacy")
    assert capsys.readouterr().err == ""


def test_the_command_writes_values_and_a_figure(parts, tmp_path, capsys):
    output, plot = tmp_path / "curve.json", tmp_path / "curve.png"
    step = curve_cli(
        parts / "dev.spacy", parts / "train.spacy", output=output, plot=plot, lang="en"
    )
    shown = [line.split()[:2] for line in capsys.readouterr().out.splitlines()]
    values = json.loads(output.read_text())
    for point in (*values["measured"], *values["forecast"]):
        assert [f"{point['n_docs']:,}", f"{100 * point['f']:.1f}"] in shown
    assert plot.read_bytes()[:4] == b"\x89PNG"
    assert step.startswith("annotate more: ") == (values["gain"]["low"] > 0)


def test_the_next_step_has_the_language(parts, monkeypatch):
    monkeypatch.setattr(LearningCurve, "is_flat", True)
    step = curve_cli(parts / "dev.spacy", parts / "train.spacy", lang="en")
    assert step.startswith("look for label errors: ") and step.endswith(" --lang en")


@pytest.mark.parametrize(
    ("gain", "is_flat"),
    [((-0.002, -0.01, 0.01), True), ((0.004, 0.001, 0.01), True), ((0.02, 0.01, 0.03), False)],
)
def test_a_small_or_uncertain_gain_is_flat(gain, is_flat):
    point = Point(10, 0.5, 0.4, 0.6)
    found = LearningCurve("ner", [point], [point], Point(20, *gain), (1.0, 1.0, 1.0))
    assert found.is_flat == is_flat
