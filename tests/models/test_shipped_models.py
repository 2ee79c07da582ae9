"""The steps that build the pipelines that ship, on corpora made here. They download nothing."""

import hashlib
import lzma
import random
import shutil
import tarfile

import pytest
import spacy
import srsly
from sentences import WORDS
from spacy.tokens import Doc, DocBin

from models import build, package, promises, train
from models.en_bcrf_address import compare
from models.en_bcrf_address import convert as address
from models.page import demote
from spacy_bcrf.pipeline.held_out import hash_texts
from spacy_bcrf.promises.kinds import note_kinds

CONFIG = """
[paths]
train = null
dev = null

[nlp]
lang = "xx"
pipeline = ["ner"]

[nlp.after_creation]
@callbacks = "spacy-bcrf.CheckVersions.v1"

[training]
max_epochs = 2

[components]

[components.ner]
factory = "bcrf_ner"

[components.ner.model]
@architectures = "spacy-bcrf.LinearChain.v1"
templates = ["lower[0]", "suffix(1..2)[0]"]
objective = "crf"
"""


SOURCE = {"name": "A", "url": "https://a.b", "author": "B", "license": "MIT"}


def as_asset(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    digest = hashlib.md5(text.encode()).hexdigest()
    return {"dest": f"${{vars.corpora}}/{path.name}", "url": "https://a.b/c", "checksum": digest}


def test_a_missing_or_changed_corpus_names_itself(tmp_path):
    asset = as_asset(tmp_path / "train.txt", "Ann\n")
    build.check_corpora(tmp_path, [asset])
    (tmp_path / "train.txt").write_text("Bob\n")
    with pytest.raises(ValueError, match=r"train.txt: the corpus has changed.*https://a.b/c"):
        build.check_corpora(tmp_path, [asset])
    (tmp_path / "train.txt").unlink()
    with pytest.raises(ValueError, match=r"train.txt: the corpus is missing.*https://a.b/c"):
        build.check_corpora(tmp_path, [asset])
    (tmp_path / "train.txt.xz").write_bytes(lzma.compress(b"Ann\n"))
    build.check_corpora(tmp_path, [asset])


def test_an_extra_corpus_may_be_missing_but_not_changed(tmp_path, capsys):
    asset = as_asset(tmp_path / "more.txt", "Ann\n")
    asset |= {"extra": True, "description": "F is 1 point lower"}
    (tmp_path / "more.txt").write_text("Bob\n")
    with pytest.raises(ValueError, match=r"more.txt: the corpus has changed"):
        build.check_corpora(tmp_path, [asset])
    (tmp_path / "more.txt").unlink()
    build.check_corpora(tmp_path, [asset])
    assert "more.txt: is missing: F is 1 point lower" in capsys.readouterr().out


def test_a_folder_has_the_checksum_of_its_archive(tmp_path):
    for name, text in (("b.txt", "Bob"), ("a.txt", "Ann")):
        as_asset(tmp_path / f"notes/{name}", text)
    digest = hashlib.md5(b"AnnBob").hexdigest()
    asset = {"dest": "${vars.corpora}/notes", "git": {"repo": "https://a.b"}, "checksum": digest}
    build.check_corpora(tmp_path, [asset])
    with tarfile.open(tmp_path / "notes.tar.xz", "w:xz") as archive:
        archive.add(tmp_path / "notes", "other")
    shutil.rmtree(tmp_path / "notes")
    build.check_corpora(tmp_path, [asset])
    (tmp_path / "notes.tar.xz").unlink()
    with pytest.raises(ValueError, match=r"notes: the corpus is missing; it is https://a\.b"):
        build.check_corpora(tmp_path, [asset])


def test_every_project_has_checksums_and_licences():
    for project in build.MODELS.glob("*/project.yml"):
        assets = srsly.read_yaml(project)["assets"]
        assert assets and all(len(asset["checksum"]) == 32 for asset in assets)
        files = {asset["dest"].removeprefix("${vars.corpora}/") for asset in assets}
        meta = srsly.read_json(project.parent / "meta.json")
        for source in meta["sources"]:
            file = source.get("file", "")
            assert not file or file in files or (project.parent / file).is_file(), file
        assert (project.parent / "LICENSE").is_file()
        assert f"{meta.get('lang', project.parent.name[:2])}_{meta['name']}" == project.parent.name


def make_docs(vocab, n, seed):
    """Make sentences of a person and a place. Two of 30 call the place a person."""
    rng = random.Random(seed)
    docs = []
    for i in range(n):
        words = [rng.choice(WORDS["PERSON"]), "saw", rng.choice(WORDS["LOC"]), f"{seed}-{i}"]
        ents = ["B-PER", "O", "B-LOC" if i % 30 > 1 else "B-PER", "O"]
        docs.append(Doc(vocab, words=words, ents=ents))
    return docs


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A folder with config, corpus of two folds and test, and trained pipelines."""
    folder = tmp_path_factory.mktemp("work")
    (folder / "config.cfg").write_text(CONFIG)
    vocab = spacy.blank("xx").vocab
    for seed, name in enumerate(("train/fold0", "train/fold1", "train/other", "test")):
        path = folder / f"corpus/{name}.spacy"
        path.parent.mkdir(parents=True, exist_ok=True)
        DocBin(docs=make_docs(vocab, 300, seed)).to_disk(path)
    for name in ("final", "fold0"):
        path = folder / f"corpus/only/{name}/more.spacy"
        path.parent.mkdir(parents=True)
        DocBin(docs=make_docs(vocab, 5, 9)).to_disk(path)
    train_all(folder)
    return folder


def train_all(folder):
    train.main([str(folder / name) for name in ("config.cfg", "corpus", "training")])


def test_each_fold_learns_the_other_files(work, monkeypatch):
    found = {}

    def note(path, files, held_out):
        found[len(found)] = [file.relative_to(work / "corpus").as_posix() for file in files]
        return spacy.blank("xx")

    monkeypatch.setattr(train, "train", note)
    train.main([str(work / "config.cfg"), str(work / "corpus"), str(work / "again")])
    assert found[0] == ["only/fold0/more.spacy", "train/fold1.spacy", "train/other.spacy"]
    assert found[1] == ["train/fold0.spacy", "train/other.spacy"]
    of_all = [f"train/{name}.spacy" for name in ("fold0", "fold1", "other")]
    assert found[2] == ["only/final/more.spacy", *of_all]


def test_a_pipeline_has_the_labels_of_held_out_documents(work, tmp_path):
    doc = Doc(spacy.blank("xx").vocab, words=["Ann", "ran"], ents=["B-PER", "O"])
    DocBin(docs=[doc]).to_disk(tmp_path / "a.spacy")
    held_out = work / "corpus/train/fold0.spacy"
    nlp = train.train(work / "config.cfg", [tmp_path / "a.spacy"], held_out)
    assert nlp.get_pipe("ner").labels == ("LOC", "PER")


def weights_of(nlp):
    learner = nlp.get_pipe("ner").model.attrs["chain"].learner
    return learner.weights[learner.n_general :]


def test_a_close_fit(work, tmp_path):
    config = tmp_path / "config.cfg"
    config.write_text(
        CONFIG.replace("max_epochs = 2", "max_epochs = 0\n\n[lbfgs]\nc1 = 0.1\nc2 = 0.01")
    )
    nlp = train.train(config, [work / "corpus/train/fold0.spacy"], None)
    # l1 leaves out the 300 words of one sentence each.
    assert 0 < weights_of(nlp).any(axis=1).sum() < 50
    assert [ent.label_ for ent in nlp("Ann saw Rome x").ents] == ["PER", "LOC"]


def test_weights_are_multiples(work):
    weights = weights_of(spacy.load(work / "training/final")) / train.STEP
    assert weights.any() and (weights == weights.round()).all()


def test_a_stopped_training_resumes(work, monkeypatch):
    names = []
    original = train.train

    def note(path, files, held_out):
        names.append(path)
        return original(path, files, held_out)

    monkeypatch.setattr(train, "train", note)
    train_all(work)
    assert not names
    (work / "training/fold1.identity").unlink()  # the training was stopped in this fold
    train_all(work)
    assert len(names) == 1
    config = work / "config.cfg"
    config.write_text(CONFIG.replace("max_epochs = 2", "max_epochs = 1"))
    train_all(work)
    assert len(names) == 4
    config.write_text(CONFIG)
    train_all(work)


@pytest.fixture(scope="module")
def controlled(work):
    """The pipeline after `calibrate` and `control`."""
    folders = [str(work / name) for name in ("corpus", "training")]
    promises.main(["calibrate", *folders, str(work / "training/final"), str(work / "calibrated")])
    promises.main(["control", *folders, str(work / "calibrated"), str(work / "controlled")])
    return spacy.load(work / "controlled")


def test_promises_rest_on_the_other_half_of_all_folds(work, controlled):
    pipe = controlled.get_pipe("ner")
    assert pipe.temperature != 1 and pipe.control is None
    kept, on = controlled.meta["promises"]["ner"], controlled.meta["promised_on"]["ner"]
    # Each fold has 300 documents.
    assert on["recall"] == {"LOC, PER": 300} and on["precision by label"]["PER"] == 300
    assert kept["precision"]["temperature"] == pipe.temperature
    held_out = train.read_held_out(work / "corpus", work / "training")
    texts = hash_texts(doc for _, docs in held_out for doc in docs[1::2])
    assert texts and tuple(kept["recall"]["fitted_on"]) == texts
    assert kept["covered"]["covered"] and not kept["recall"]["covered"]
    assert kept["covered"]["thresholds"][0] > kept["recall"]["thresholds"][0]
    assert "covered by label" not in kept
    (note,) = on["notes"]
    assert "precision 0.9 of LOC" in note and "precision by label" in kept
    pipe.control = kept["recall"]
    doc = controlled("Ann saw Rome x")
    assert {span.text for span in doc.spans["candidates"]} >= {"Ann", "Rome"}
    pipe.control = kept["precision by label"]
    assert controlled("Ann saw Rome x").ents[0].text == "Ann"
    pipe.control = None


def test_a_pipeline_judges_documents_that_it_did_not_learn(work):
    for nlp, docs in train.read_held_out(work / "corpus", work / "training"):
        known = nlp.get_pipe("ner").model.attrs["chain"]
        assert len(docs) == 300 and known.is_ready
    names = [path.stem for path in train.find_held_out(work / "corpus").values()]
    assert names == ["fold0", "fold1"]


def test_the_promise_of_a_kind_rests_on_pipelines_that_did_not_learn_it(work, controlled, tmp_path):
    shutil.copytree(work / "corpus", tmp_path / "corpus")
    (tmp_path / "corpus/kinds").mkdir()
    for name in ("fold0", "fold1"):
        source = work / f"corpus/train/{name}.spacy"
        shutil.copy(source, tmp_path / f"corpus/kinds/letters.{name}.spacy")
    few = make_docs(spacy.blank("xx").vocab, 1500, 5)[4::30]
    DocBin(docs=few[:49]).to_disk(tmp_path / "corpus/kinds/notes.spacy")
    calibrated = spacy.load(work / "calibrated")
    calibrated.get_pipe("ner").threshold = 0.4  # as of the decoder for F
    calibrated.to_disk(tmp_path / "calibrated")
    folders = [str(tmp_path / name) for name in ("corpus", "calibrated", "controlled")]
    promises.main(["control", folders[0], str(work / "training"), *folders[1:]])
    nlp = spacy.load(tmp_path / "controlled")
    meta = nlp.meta
    # Too few for a watch, and a promise without one is none.
    assert "notes: [ner] the reference has 49" in " ".join(meta["promised_on"]["ner"]["notes"])
    assert meta["promised_on"]["ner"]["letters"] == {"LOC, PER": 600}
    held_out = list(train.read_held_out(work / "corpus", work / "training"))
    texts = hash_texts(doc for _, docs in held_out for doc in docs)
    assert tuple(meta["promises"]["ner"]["letters"]["fitted_on"]) == texts
    assert meta["watches"]["ner"].keys() == {"letters"}
    assert note_kinds(nlp, "ner", None, [doc.text for doc in held_out[0][1]]) == []
    (note,) = note_kinds(nlp, "ner", None, ["it is , it is"] * 90)
    assert "unlike the documents of the promise letters" in note


def test_a_pipeline_leaves_out_the_part_that_it_judges(work, tmp_path, monkeypatch):
    shutil.copytree(work / "corpus", tmp_path / "corpus")
    (tmp_path / "corpus/kinds").mkdir()
    shutil.copy(work / "config.cfg", tmp_path)
    fold = work / "corpus/train/fold0.spacy"
    for name in ("train/few.spacy", "train/few-again0.spacy", "kinds/letters.few.spacy"):
        shutil.copy(fold, tmp_path / "corpus" / name)
    learned = []
    nlp = spacy.load(work / "training/final")

    def note(config, files, held_out):
        learned.append({file.stem for file in files})
        return nlp

    monkeypatch.setattr(train, "train", note)
    train_all(tmp_path)
    assert learned[0] == {"fold0", "fold1", "other"}
    assert all(names > {"few", "few-again0"} for names in learned[1:])


def test_without_a_test_part_a_fold_is_judged(work, controlled, tmp_path):
    folders = [str(work / name) for name in ("corpus", "training")]
    controlled.get_pipe("ner").threshold = 0.4
    controlled.to_disk(tmp_path / "controlled")
    controlled.get_pipe("ner").threshold = 0
    folders.append(str(tmp_path / "controlled"))
    promises.main(["judge", *folders, str(tmp_path / "tested")])
    weights = [spacy.load(tmp_path / "tested"), controlled, spacy.load(work / "training/fold0")]
    tested, final, fold = [weights_of(nlp).sum() for nlp in weights]
    assert tested == final != fold
    shutil.copytree(work / "corpus", tmp_path / "corpus")
    (tmp_path / "corpus/test.spacy").unlink()
    promises.main(["judge", str(tmp_path / "corpus"), *folders[1:], str(tmp_path / "judged")])
    judged = spacy.load(tmp_path / "judged")
    assert weights_of(judged).sum() == fold
    assert judged.meta["promises"] == controlled.meta["promises"]
    of_fold, shipped = judged.get_pipe("ner").settings, controlled.get_pipe("ner").settings
    assert (of_fold.temperature, of_fold.threshold) == (shipped.temperature, 0.4)
    fold_file = (work / "corpus/train/fold0.spacy").read_bytes()
    assert (tmp_path / "judged.spacy").read_bytes() == fold_file


def test_a_dev_part_beside_folds_is_of_an_older_build(tmp_path):
    (tmp_path / "train").mkdir()
    (tmp_path / "train/fold0.spacy").touch()
    (tmp_path / "dev.spacy").touch()
    with pytest.raises(ValueError, match=r"dev\.spacy: .*fold0\.spacy is held out too; remove"):
        train.find_held_out(tmp_path)


def test_the_card_has_scores_promises_and_what_the_pipeline_is_not_for(work, controlled):
    test = make_docs(controlled.vocab, 40, 7)
    (work / "card.md").write_text("## Data and limits\n\nNo names but ours.\n")
    (work / "report.md").write_text("| label | gold |\n")
    controlled.meta |= {"license": "MIT", "performance": {"speed": 123456.0}}
    controlled.meta |= {"training_data": {"files": ["a", "b"], "sha256": "abc"}}
    controlled.meta |= {"description": "Sees people."}
    controlled.meta["sources"] = [
        {"name": "A", "url": "https://a.b", "author": "B", "license": "MIT"}
    ]
    made = package.describe_promises(controlled, test)
    card = package.write_card(
        controlled, ["Ann saw Rome x"], made, work / "card.md", work / "report.md"
    )
    assert "# Ann | PER | " in card and "123,456 words/s" in card and "No names but ours." in card
    assert "| all | recall 0.95 |" in card and "| all | recall 0.95 (covered) |" in card
    assert "[A](https://a.b) by B, MIT" in card
    assert "training files a, b: `abc`" in card
    page = demote(card)
    assert "\n### Data and limits" in page and "\n# Ann | PER" in page and "### Scores" not in page


def test_a_missing_licence_stops_packaging(tmp_path):
    source = {
        "name": "A",
        "url": "https://a.b",
        "author": "B",
        "license": "MIT",
        "file": "a/LICENSE",
    }
    with pytest.raises(ValueError, match="the licence of the pipeline is missing"):
        list(package.read_licences(tmp_path, tmp_path, [source]))
    (tmp_path / "LICENSE").write_text("ours")
    with pytest.raises(ValueError, match="a/LICENSE: the licence of A is missing"):
        list(package.read_licences(tmp_path, tmp_path, [source]))
    (tmp_path / "a").mkdir()
    (tmp_path / "a/LICENSE").write_text("theirs")
    assert "theirs" in "".join(package.read_licences(tmp_path, tmp_path, [source]))


ADDRESS = [
    ("12", "AddressNumber"),
    ("(Main", "StreetName"),
    ("St.,", "StreetNamePostType"),
    ("#", "OccupancyIdentifier"),
    ("5,\n", "OccupancyIdentifier"),
    ("Rome,", "PlaceName"),
    ("City,", "PlaceName"),
]


def test_an_address_has_an_entity_for_each_run_of_a_label():
    nlp = address.make_nlp()
    doc = address.make_doc(nlp, ADDRESS)
    assert [(ent.text, ent.label_) for ent in doc.ents] == [
        ("12", "AddressNumber"),
        ("(Main", "StreetName"),
        ("St.,", "StreetNamePostType"),
        ("# 5,", "OccupancyIdentifier"),
        ("Rome, City,", "PlaceName"),
    ]


def test_addresses_compare_by_words():
    nlp = address.make_nlp()
    nlp.remove_pipe("ner")
    ruler = nlp.add_pipe("entity_ruler")
    ruler.add_patterns([{"label": "StreetName", "pattern": [{"ORTH": "(Main,"}]}])
    (words,) = compare.parse(nlp, ["12 (Main,\nx"])
    assert words == [("12", ""), ("(Main,", "StreetName"), ("x", "")]
    labels = [("Main", "StreetName"), ("St", "StreetNamePostType")]
    assert compare.labels_of(labels, is_coarse=True) == ["StreetName"] * 2


def test_other_code_or_another_version_trains_again(tmp_path, monkeypatch):
    config, corpus = tmp_path / "config.cfg", tmp_path / "corpus"
    config.write_text(CONFIG)
    corpus.mkdir()
    found = [train.identify(config, corpus)]
    (tmp_path / "convert.py").write_text("1")
    found.append(train.identify(config, corpus))
    (tmp_path / "convert.py").write_text("2")
    found.append(train.identify(config, corpus))
    monkeypatch.setattr(train, "__version__", "0")
    found.append(train.identify(config, corpus))
    assert len(set(found)) == 4
