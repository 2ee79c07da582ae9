"""Tests of `python -m spacy bcrf init`: configs that train, and what they say of the corpus."""

import json
from pathlib import Path

import pytest
import spacy
from commands import command
from spacy import util
from spacy.tokens import Doc, DocBin, Span
from spacy.vocab import Vocab

from spacy_bcrf.corpora.convert import convert
from spacy_bcrf.corpora.inspection import Inspection
from spacy_bcrf.sparse.two_pass import LEAST_SENTENCES
from spacy_bcrf.training.first_config import ENCODERS, LARGE, make_first_config

run = command("init")
SAMPLE = Path(__file__).resolve().parents[2] / "assets/sample"


def inspect(n=3, ents=True, tags=False):
    found, vocab = Inspection(), Vocab()
    for _ in range(n):
        doc = Doc(
            vocab,
            words=["Anna", "sleeps"],
            ents=["B-PER", "O"] if ents else None,
            tags=["N", "V"] if tags else None,
        )
        found.add(doc)
    return found


def test_counts_of_one(tmp_path):
    (tmp_path / "train.conll").write_text("Ann B-PER\nsaw O\n\n" * 30)
    output = run("-o", tmp_path / "config.cfg", "--train", tmp_path / "train.conll").output
    assert "ner: 1 label: PER" in output and "an evaluation every 1 step\n" in output


@pytest.mark.parametrize("encoder", ["sparse", "cnn", "hybrid"])
def test_the_config_trains_as_it_is(tmp_path, encoder):
    from spacy.cli.train import train

    config = tmp_path / "new" / "config.cfg"
    files = "--train", SAMPLE / "train.conllu", "--dev", SAMPLE / "dev.conllu"
    result = run("-o", config, *files, "--encoder", encoder)
    assert "313 documents, 4,235 tokens" in result.output
    assert "ner: 4 labels: DATE, LOC, ORG, PERSON" in result.output
    assert result.step.startswith(f"python -m spacy train {config}")
    overrides = {"training.max_steps": 4, "training.eval_frequency": 4}
    train(config, tmp_path / "out", overrides=overrides)
    nlp = spacy.load(tmp_path / "out/model-last")
    assert nlp.pipe_names[-2:] == ["ner", "tagger"]
    assert nlp("Anna sleeps.").has_annotation("TAG")


def test_spans_that_may_overlap_have_a_component(tmp_path):
    docs = []
    for key in ("sc", "other"):
        doc = Doc(spacy.blank("en").vocab, words=["Anna", "sleeps"])
        doc.spans[key] = [Span(doc, 0, 1, label="PER"), Span(doc, 0, 2, label="EVENT")]
        docs.append(doc)
    DocBin(docs=docs[:1] * 20).to_disk(tmp_path / "all.spacy")
    result = run("-o", tmp_path / "c.cfg", "--train", tmp_path / "all.spacy")
    assert "spans: 2 labels: EVENT, PER" in result.output
    nlp = util.load_model_from_config(util.load_config(tmp_path / "c.cfg"))
    assert nlp.get_pipe_meta("spans").factory == "bcrf_spans"
    DocBin(docs=docs[1:] * 20).to_disk(tmp_path / "all.spacy")
    options = "-o", tmp_path / "c.cfg", "--train", tmp_path / "all.spacy", "--force"
    result = run(*options, "-p", "spans", exit_code=1)
    assert "train.spacy has no doc.spans['sc']" in result.output
    result = run(*options, exit_code=1)
    assert "Its span groups: other" in result.output


def test_documents_are_held_out_if_there_is_no_dev_part(tmp_path):
    result = run("-o", tmp_path / "c.cfg", "--train", SAMPLE / "train.conllu", "-p", "ner")
    assert f"dev.spacy: 31 documents, each 10th of {SAMPLE / 'train.conllu'}" in result.output
    paths = util.load_config(tmp_path / "c.cfg")["paths"]
    parts = {name: DocBin().from_disk(paths[name]) for name in ("train", "dev")}
    assert {name: len(part) for name, part in parts.items()} == {"train": 282, "dev": 31}
    vocab = spacy.blank("en").vocab
    assert {path.name for path in tmp_path.iterdir()} == {"c.cfg", "train.spacy", "dev.spacy"}
    convert([SAMPLE / "train.conllu"], tmp_path / "all.spacy", lang="en")
    whole = DocBin().from_disk(tmp_path / "all.spacy").get_docs(vocab)
    texts = [doc.text for part in parts.values() for doc in part.get_docs(vocab)]
    assert sorted(texts) == sorted(doc.text for doc in whole)


@pytest.mark.parametrize("name", ["train.spacy", "dev.spacy"])
def test_a_part_does_not_replace_the_whole(tmp_path, name):
    docs = [Doc(Vocab(), words=["Ann", str(i)], ents=["B-PER", "O"]) for i in range(20)]
    DocBin(docs=docs).to_disk(tmp_path / name)
    before = (tmp_path / name).read_bytes()
    result = run("-o", tmp_path / "c.cfg", "--train", tmp_path / name, "--force", exit_code=1)
    assert f"{name}: a part would replace the whole" in result.output
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [before]
    run("-o", tmp_path / "new/c.cfg", "--train", tmp_path / name)
    assert (tmp_path / name).read_bytes() == before


@pytest.mark.parametrize("train, dev", [("dev.spacy", "a.conll"), ("a.conll", "train.spacy")])
def test_no_part_replaces_an_input(tmp_path, train, dev):
    DocBin(docs=[Doc(spacy.blank("en").vocab, words=["a"])] * 20).to_disk(tmp_path / "dev.spacy")
    (tmp_path / "train.spacy").write_bytes((tmp_path / "dev.spacy").read_bytes())
    (tmp_path / "a.conll").write_text("Anna\tB-PER\n\n" * 20)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    for force in ([], ["--force"]):
        result = run(
            "-o",
            tmp_path / "c.cfg",
            "-t",
            tmp_path / train,
            "-d",
            tmp_path / dev,
            *force,
            exit_code=1,
        )
        assert "would replace the input" in result.output
        assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_other_files_are_replaced_by_force_alone(tmp_path):
    files = [tmp_path / name for name in ("train.spacy", "dev.spacy")]
    for path in files:
        path.write_bytes(b"mine")
        result = run("-o", tmp_path / "c.cfg", "--train", SAMPLE / "train.conllu", exit_code=1)
        assert f"{path} exists; expected another --output, or --force" in result.output
        assert [*tmp_path.iterdir()] == [path] and path.read_bytes() == b"mine"
        path.unlink()
    for path in files:
        path.write_bytes(b"mine")
    result = run("-o", tmp_path / "c.cfg", "--train", SAMPLE / "train.conllu", "-F")
    assert b"mine" not in [path.read_bytes() for path in files]


@pytest.mark.parametrize(
    "options, message",
    [
        (["--pipe", "foo"], "component 'foo'"),
        (["--clusters", "latin.txt"], "latin.txt:1: byte 0xe9"),
        (["--clusters", "empty.txt"], "empty.txt: no clusters"),
        (["--clusters", "plain.txt"], "plain.txt:1: expected word<TAB>cluster"),
    ],
)
def test_a_bad_option_leaves_no_part(here, options, message):
    Path("latin.txt").write_bytes(b"caf\xe9\t1\n")
    Path("empty.txt").touch()
    Path("plain.txt").write_text("word\n")
    before = sorted(Path().iterdir())
    result = run("-o", "c.cfg", "--train", SAMPLE / "train.conllu", *options, exit_code=1)
    assert message in result.output
    assert sorted(Path().iterdir()) == before


def test_columns_of_overlapping_entities_for_spans(tmp_path):
    rows = "Uni\tB-ORG\tO\nOslo\tI-ORG\tB-LOC\nsagt\tO\tO\n\n"
    (tmp_path / "train.tsv").write_text(rows * 20)
    options = "-o", tmp_path / "c.cfg", "--train", tmp_path / "train.tsv"
    result = run(*options, "-p", "spans")
    assert util.load_config(tmp_path / "c.cfg")["nlp"]["pipeline"] == ["spans"]
    doc = next(DocBin().from_disk(tmp_path / "dev.spacy").get_docs(spacy.blank("de").vocab))
    assert [span.label_ for span in doc.spans["sc"]] == ["ORG", "LOC"]
    result = run(*options, "--force")
    assert util.load_config(tmp_path / "c.cfg")["nlp"]["pipeline"] == ["ner"]
    assert "overlap longer ones" in result.output


@pytest.mark.parametrize(
    ("n", "tokens", "passes"),
    [(3, 9, 20), (3, 40_000, 20), (1_000, 39_999, 20), (1_000, 40_000, 10)],
)
def test_passes_fit_the_size(n, tokens, passes):
    corpus = inspect(3)
    corpus.docs, corpus.tokens = n, tokens
    training = make_first_config(corpus, "en")[0]["training"]
    assert training["max_epochs"] == passes
    n_steps = passes * -(-n // 64)
    evaluated = [step for step in range(n_steps) if step % training["eval_frequency"] == 0]
    # Each evaluation writes the model. The last one is near the end.
    assert 10 <= len(evaluated) <= 20 and n_steps - evaluated[-1] <= 10


def test_chains_of_names_drop_features():
    components = make_first_config(inspect(tags=True), "en")[0]["components"]
    assert components["ner"]["model"]["feature_dropout"] == 0.2
    assert components["tagger"]["model"]["feature_dropout"] == 0
    network = make_first_config(inspect(), "en", encoder="cnn")[0]["components"]["ner"]["model"]
    assert "feature_dropout" not in network


@pytest.mark.parametrize(
    ("n", "encoder", "decoder"),  # two words each
    [(4_999, "sparse", "viterbi"), (5_000, "sparse", "f"), (5_000, "cnn", "viterbi")],
)
def test_entities_are_decoded_for_f_if_training_can_fit_its_threshold(n, encoder, decoder):
    config, _ = make_first_config(inspect(n), "en", encoder=encoder)
    assert util.load_model_from_config(config).get_pipe("ner").decoder == decoder


def test_two_passes_for_documents_that_repeat_names():
    vocab = spacy.blank("en").vocab
    words = ["Ann", "sleeps", "."] * LEAST_SENTENCES
    long = Doc(vocab, words=words, ents=["B-PER", "O", "O"] * LEAST_SENTENCES)
    short = Doc(vocab, words=words[3:], ents=["B-PER", "O", "O"] * (LEAST_SENTENCES - 1))

    def two_pass(docs, encoder="sparse"):
        corpus = Inspection()
        for doc in docs:
            corpus.add(doc)
        config, notes = make_first_config(corpus, "en", encoder=encoder)
        model = config["components"]["ner"]["model"]
        found = model.get("two_pass", False)
        assert found == ("ner: rate = 0.03, two_pass = true" in "\n".join(notes))
        if encoder == "sparse":
            assert model["rate"] == (0.03 if found else 0.1)
        return found

    assert two_pass([long, short])
    assert not two_pass([short])
    assert not two_pass([long, short, short])
    assert not two_pass([long], "hybrid")


@pytest.mark.parametrize(("tokens", "two_pass"), [(LARGE - 1, True), (LARGE, False)])
def test_two_passes_do_not_keep_large_corpora(tokens, two_pass):
    corpus = inspect(3)
    corpus.tokens = corpus.with_context = tokens
    model = make_first_config(corpus, "en")[0]["components"]["ner"]["model"]
    assert model["two_pass"] == two_pass


def test_components_follow_the_annotation():
    def pipeline(**annotation):
        return make_first_config(inspect(**annotation), "en")[0]["nlp"]["pipeline"]

    assert pipeline() == ["ner"]
    assert pipeline(tags=True) == ["ner", "tagger"]
    assert pipeline(ents=False, tags=True) == ["tagger"]


def test_tags_of_a_tokenizer_are_overwritten(tmp_path):
    pytest.importorskip("sudachipy", reason="the tokenizer of Japanese is not installed")
    config, notes = make_first_config(inspect(tags=True), "ja")
    assert config["components"]["tagger"]["overwrite"] is True
    assert "tagger: overwrite = true: the tokenizer of ja sets tags" in notes
    assert (
        make_first_config(inspect(tags=True), "en")[0]["components"]["tagger"]["overwrite"] is False
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"encoder": "lstm"}, f"encoder 'lstm': expected one of {', '.join(ENCODERS)}"),
        ({"encoder": "transformer"}, "needs the folder or name of a transformer"),
        ({"transformer": "folder"}, "a transformer is given, but the encoder is sparse"),
        ({"pipes": ["parser"]}, "component 'parser': expected ner, spans, tagger"),
        ({"pipes": ["tagger"]}, "component tagger: the corpus has no token.tag"),
        ({"encoder": "cnn", "clusters": SAMPLE}, "cnn reads none; take sparse or hybrid"),
    ],
)
def test_impossible_choices_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        make_first_config(inspect(), "en", **options)


def test_bad_files_are_one_line_and_leave_nothing(tmp_path):
    empty = tmp_path / "empty.conll"
    empty.write_text("")
    few = tmp_path / "few.conll"
    few.write_text("Anna B-PER\n\nBo B-PER\n")
    for train, dev, message in [
        (SAMPLE / "train.conllu", SAMPLE / "train.conllu", "the dev part is the training part"),
        (empty, SAMPLE / "dev.conllu", "no records"),
        (few, None, "2 documents are too few to hold some out"),
        (few, tmp_path / "none.conll", "none.conll: no such file or folder"),
    ]:
        result = run(
            "-o", tmp_path / "c.cfg", "-t", train, *(["--dev", dev] if dev else []), exit_code=1
        )
        assert message in result.output
        assert not (tmp_path / "c.cfg").exists()


def test_raw_text_beside_the_corpus_is_found(tmp_path):
    corpus = tmp_path / "train.conllu"
    corpus.write_bytes((SAMPLE / "train.conllu").read_bytes())
    (tmp_path / "raw.txt").write_text("some words\n" * 40_000)
    result = run("-o", tmp_path / "out" / "c.cfg", "--train", corpus)
    assert f"{tmp_path / 'raw.txt'} may be raw text" in result.output


def test_clusters_of_a_short_text(tmp_path):
    corpus = tmp_path / "train.conllu"
    corpus.write_bytes((SAMPLE / "train.conllu").read_bytes())
    (tmp_path / "raw.txt").write_text("some words are here\n" * 20_000)
    options = "--train", corpus, "-p", "ner", "--clusters", "brown"
    result = run("-o", tmp_path / "out" / "c.cfg", *options)
    assert "4 words in 4 clusters" in result.output


def test_empty_texts_are_named(tmp_path):
    (tmp_path / "empty.txt").write_text("\n")
    (tmp_path / "people.txt").write_text("Ann")
    texts = "--train", tmp_path / "empty.txt", "--dev", SAMPLE / "dev.conllu"
    output = run(
        "-o", tmp_path / "c.cfg", "--names", f"PER={tmp_path / 'people.txt'}", *texts, exit_code=1
    )
    assert f"{tmp_path / 'empty.txt'}: has no text" in output.output


def test_vectors_that_no_component_reads_are_named(tmp_path):
    """`spacy init config -o accuracy` sets vectors, which a sparse chain does not read."""
    from spacy.cli.init_config import init_config
    from spacy.training import Example

    config = init_config(lang="en", pipeline=["bcrf_ner"], optimize="accuracy", gpu=False)
    assert config["initialize"]["vectors"]
    nlp = util.load_model_from_config(config, auto_fill=True)
    doc = Doc(nlp.vocab, words=["Anna", "sleeps"], ents=["B-PER", "O"])
    config = nlp.config
    config["initialize"]["vectors"] = "en_core_web_lg"
    with pytest.warns(UserWarning, match="reads no word vectors: .*'en_core_web_lg' has no effect"):
        nlp.get_pipe("bcrf_ner").initialize(lambda: [Example(doc, doc)], nlp=nlp)


def test_brown_clusters_of_the_raw_text_beside_the_corpus(tmp_path):
    corpus = tmp_path / "train.conllu"
    corpus.write_bytes((SAMPLE / "train.conllu").read_bytes())
    words = ("Anna", "saw", "Rome", *(f"w{i}" for i in range(300)))
    (tmp_path / "raw.txt").write_text(f"{' '.join(words)}\n" * 200)
    options = "-o", tmp_path / "c.cfg", "--train", corpus, "-p", "ner", "--clusters", "brown"
    result = run(*options)
    lines = (tmp_path / "clusters.tsv").read_text().splitlines()
    assert {line.split("\t")[0] for line in lines} == set(words)
    model = util.load_config(tmp_path / "c.cfg")["components"]["ner"]["model"]
    assert model["templates"] == "social-brown"
    assert model["clusters"] == {"brown": str(tmp_path / "clusters.tsv")}
    result = run("-F", *options[:-1], "none.tsv", exit_code=1)
    assert "clusters none.tsv: no such file; expected a file, or brown" in result.output


def test_brown_clusters_of_the_texts_of_names(tmp_path):
    words = "then", "Ann", "left", *(f"w{i}" for i in range(300))
    (tmp_path / "raw.txt").write_text(f"{' '.join(words)}\n" * 20)
    (tmp_path / "people.txt").write_text("Ann")
    (tmp_path / "places.txt").write_text("left")
    doc = Doc(Vocab(), words=words, ents=["O", "B-PERSON", "B-LOC", *["O"] * 300])
    DocBin(docs=[doc]).to_disk(tmp_path / "dev.spacy")
    parts = "--train", tmp_path / "raw.txt", "--dev", tmp_path / "dev.spacy"
    names = f"PER={tmp_path / 'people.txt'}", f"LOC={tmp_path / 'places.txt'}"
    options = "--names", names[0], "--names", names[1], *parts, "--clusters", "brown"
    result = run("-o", tmp_path / "c.cfg", *options)
    lines = (tmp_path / "clusters.tsv").read_text().splitlines()
    assert {line.split("\t")[0] for line in lines} == set(words)
    # The labels of both parts differ.
    assert "dev.spacy has no PER, so F says nothing about them" in result.output
    missed = "train.spacy has no PERSON, so all of them in the dev part count as missed"
    assert missed in result.output


def test_a_config_is_replaced_by_force_alone(tmp_path):
    output = tmp_path / "c.cfg"
    output.write_text("mine")
    options = "-o", output, "-t", SAMPLE / "train.conllu", "-p", "ner"
    problem = "c.cfg exists; expected another --output, or --force"
    assert problem in run(*options, exit_code=1).output
    assert output.read_text() == "mine"
    run("--force", *options)
    assert output.read_text() != "mine"


def test_a_corpus_without_documents_is_named(tmp_path):
    DocBin().to_disk(tmp_path / "empty.spacy")
    for part, other in ("-t", "-d"), ("-d", "-t"):
        parts = part, tmp_path / "empty.spacy", other, SAMPLE / "dev.conllu"
        result = run("-F", "-o", tmp_path / "c.cfg", *parts, "-p", "ner", exit_code=1)
        assert "empty.spacy: has no documents" in result.output


def test_a_training_part_without_an_entity_is_named(tmp_path):
    (tmp_path / "o.jsonl").write_text('{"text": "Ann left", "spans": []}\n' * 10)
    result = run("-o", tmp_path / "c.cfg", "-t", tmp_path / "o.jsonl", exit_code=1)
    assert "component ner" in result.output and "has no entity, so training" in result.output


def test_a_dev_part_without_the_annotation_is_named(tmp_path):
    docs = [Doc(Vocab(), words=["Ann", "left"])]
    DocBin(docs=docs).to_disk(tmp_path / "bare.spacy")
    parts = "-t", SAMPLE / "train.conllu", "-d", tmp_path / "bare.spacy"
    result = run("-o", tmp_path / "c.cfg", *parts, exit_code=1)
    assert "bare.spacy has no entity annotation" in result.output
    assert {path.name for path in tmp_path.iterdir()} == {"bare.spacy"}


def write_brat(folder, n=20):
    folder.mkdir(parents=True)
    for i in range(n):
        (folder / f"{i}.txt").write_text(f"Ann{i} Lee left Oslo .")
        end = 7 + len(str(i))
        lines = f"T1\tPER 0 {end}\tAnn{i} Lee\nT2\tLOC {end + 6} {end + 10}\tOslo\n"
        (folder / f"{i}.ann").write_text(lines)


def read(path):
    return list(DocBin(store_user_data=True).from_disk(path).get_docs(Vocab()))


def test_a_folder_of_brat(tmp_path):
    write_brat(tmp_path / "train" / "a")
    write_brat(tmp_path / "dev", 2)
    result = run("-o", tmp_path / "c.cfg", "-t", tmp_path / "train", "-d", tmp_path / "dev")
    docs = read(tmp_path / "train.spacy")
    assert [len(docs), len(read(tmp_path / "dev.spacy"))] == [20, 2]
    assert {ent.label_ for doc in docs for ent in doc.ents} == {"PER", "LOC"}
    assert "entity_ratio" not in result.output  # brat is complete


def test_several_files_of_which_the_new_annotation_stays(tmp_path):
    texts = [f"Ann{i} left ." for i in range(20)]
    nlp = spacy.blank("xx")
    docs = list(map(nlp.make_doc, texts))
    for doc in docs:
        doc.set_ents([Span(doc, 1, 2, "WRONG")])
    DocBin(docs=docs[5:]).to_disk(tmp_path / "old.spacy")
    DocBin(docs=docs[:5]).to_disk(tmp_path / "dev.spacy")
    saved = [
        {"text": text, "spans": [{"start": 0, "end": 5, "label": "PER"}]} for text in texts[8:]
    ]
    (tmp_path / "new.jsonl").write_text("".join(json.dumps(each) + "\n" for each in saved))
    files = "-t", tmp_path / "old.spacy", "-t", tmp_path / "new.jsonl"
    result = run("-o", tmp_path / "next/c.cfg", *files, "-d", tmp_path / "dev.spacy")
    found = {
        doc.text: [ent.label_ for ent in doc.ents] for doc in read(tmp_path / "next/train.spacy")
    }
    assert found == {text: ["WRONG"] if i < 8 else ["PER"] for i, text in enumerate(texts) if i > 4}
    assert util.load_config(tmp_path / "next/c.cfg")["paths"]["dev"] == str(tmp_path / "dev.spacy")
    result = run("-o", tmp_path / "c.cfg", *files, "-d", tmp_path / "new.jsonl", "-F", exit_code=1)
    assert "the dev part is the training part" in result.output


def test_documents_of_both_parts_are_counted(tmp_path):
    for name, words in ("train", "abc"), ("dev", "cd"):
        docs = [Doc(Vocab(), words=[word], ents=["B-X"]) for word in words]
        DocBin(docs=docs).to_disk(tmp_path / f"{name}.spacy")
    parts = "-t", tmp_path / "train.spacy", "-d", tmp_path / "dev.spacy"
    result = run("-o", tmp_path / "c.cfg", *parts)
    assert f"1 of 2 documents of {parts[3]} is in {parts[1]} too" in result.output


def test_names_and_texts(tmp_path):
    from spacy.cli.train import train

    names = [f"{a}{b}" for a in ("Ka", "Lo", "Mi") for b in ("ra", "no", "si", "te")]
    (tmp_path / "people.txt").write_text("\n".join(names[:6]))
    (tmp_path / "raw.txt").write_text("".join(f"then {name} left us .\n" for name in names * 5))
    nlp = spacy.blank("xx")
    dev = [nlp.make_doc(f"then {name} left us .") for name in names]
    for doc in dev:
        doc.ents = [Span(doc, 1, 2, "PER")]
    DocBin(docs=dev).to_disk(tmp_path / "dev.spacy")
    options = "--names", f"PER={tmp_path / 'people.txt'}", "--train", tmp_path / "raw.txt"
    result = run("-o", tmp_path / "c.cfg", *options, exit_code=1)
    assert "names need a dev corpus" in result.output and len([*tmp_path.iterdir()]) == 3
    result = run("-o", tmp_path / "c.cfg", *options, "-d", tmp_path / "dev.spacy")
    assert "60 texts, 30 names in them" in result.output
    assert (
        "annotates 30 tokens as entities, and 0 as O. entity_ratio.ratio = 0.2 is" in result.output
    )
    ner = util.load_config(tmp_path / "c.cfg")["components"]["ner"]
    assert ner["entity_ratio"] == {"ratio": 0.2, "margin": 0.067}
    train(tmp_path / "c.cfg", tmp_path / "out")
    best = spacy.load(tmp_path / "out/model-best")
    found = [[ent.text for ent in doc.ents] for doc in best.pipe(doc.text for doc in dev)]
    assert found == [[name] for name in names]
    assert 0.5 < best(dev[0].text).ents[0]._.confidence <= 1
    wrong = "--names", f"PERSON={tmp_path / 'people.txt'}", *options[2:]
    result = run("-o", tmp_path / "d/c.cfg", *wrong, "-d", tmp_path / "dev.spacy", exit_code=1)
    assert "so no entity can be right; expected equal labels" in (result.output)
    assert not list((tmp_path / "d").iterdir())
    DocBin(docs=[nlp.make_doc("left")]).to_disk(tmp_path / "none.spacy")
    parts = "-t", tmp_path / "none.spacy", "-d", tmp_path / "dev.spacy", "--pipe", "ner"
    result = run("-o", tmp_path / "d/c.cfg", *parts, exit_code=1)
    assert "none of the 1 documents has entities, which `ner` learns" in result.output
    result = run(
        "-o", tmp_path / "c.cfg", "-F", *options[:2], "-d", tmp_path / "dev.spacy", exit_code=1
    )
    assert "expected --train, or --scores alone" in result.output


@pytest.mark.parametrize(
    ("ents", "dev_ents", "ratio"),
    [
        (["B-PER", "", ""], ["B-PER", "O", "O"], 0.333),
        (["B-PER", "", ""], ["B-PER", "", ""], 0.15),
        (["B-PER", "", ""], ["B-PER", "I-PER", "O"], 0.667),
        (["B-PER", "", "O"], ["B-PER", "O", "O"], None),
        (["B-PER", "I-PER", "I-PER"], ["B-PER", "O", "O"], None),
        (["B-PER", "", ""], ["O", "O", "O"], None),
    ],
)
def test_entities_without_o_set_the_ratio(ents, dev_ents, ratio):
    found = []
    for tags in ents, dev_ents:
        doc = Doc(Vocab(), words=["Ann", "left", "."], ents=["O" if t == "" else t for t in tags])
        missing = [Span(doc, i, i + 1) for i, tag in enumerate(tags) if not tag]
        doc.set_ents([*doc.ents], missing=missing, default="unmodified")
        found.append(Inspection())
        found[-1].add(doc)
    config, notes = make_first_config(found[0], "xx", dev=found[1])
    got = config["components"]["ner"]["entity_ratio"]
    assert (got and got["ratio"]) == ratio
    assert ("set it by hand" in " ".join(notes)) == (ratio == 0.15)


def test_probabilities_are_on_and_scores_are_of_what_is_written():
    config = make_first_config(inspect(tags=True), "xx")[0]
    assert [block["annotate"] for block in config["components"].values()] == [["confidence"]] * 2
    weights = config["training"]["score_weights"]
    assert weights["tag_acc"] == weights["ents_f"] == 0.5 and "pos_acc" not in weights


def test_a_segmenter(tmp_path):
    from spacy.cli.train import train

    words = [["ab", "c"], ["c", "ab"], ["ab", "ab", "c"]]
    docs = [
        Doc(Vocab(), words=each, spaces=[False] * len(each), tags=["N"] * len(each))
        for each in words * 10
    ]
    DocBin(docs=docs).to_disk(tmp_path / "all.spacy")
    options = "-o", tmp_path / "c.cfg", "-t", tmp_path / "all.spacy", "-l", "zh"
    result = run(*options, "-p", "segmenter,tagger", exit_code=1)
    assert "segmenter: expected no other component" in result.output
    result = run(*options, "-p", "segmenter")
    train(tmp_path / "c.cfg", tmp_path / "out")
    assert [w.text for w in spacy.load(tmp_path / "out/model-best")("cabc")] == ["c", "ab", "c"]
