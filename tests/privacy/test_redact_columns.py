"""Redacted columns of tables, with a verdict on each."""

import pytest
import spacy
from sentences import make_docs

from spacy_bcrf.judging.folds import train_sparse_chain
from spacy_bcrf.privacy.redact_columns import read_rows, redact_columns, write_rows
from spacy_bcrf.privacy.restore import restore
from spacy_bcrf.privacy.vault import Vault
from spacy_bcrf.promises.risk import binomial_interval

pa = pytest.importorskip("pyarrow")
DATA = {
    "who": ["Ann", None, "so", "Bob"],
    "n": [1, 2, 3, 4],
    "text": ["Ann saw Rome .", "saw .", "", "Bob saw Kiel ."],
    "more": [["Ann", None], [], None, ['{"x": "Bob"}']],
}


@pytest.fixture(scope="module")
def nlp():
    vocab = spacy.blank("xx").vocab
    return train_sparse_chain(make_docs(vocab) * 8, ["PERSON", "LOC"])


def make_table(kind):
    if kind == "arrow":
        return pa.table(DATA)
    return pytest.importorskip(kind).DataFrame(DATA)


@pytest.mark.parametrize("kind", ["arrow", "pandas", "polars"])
def test_tables_keep_their_kind(nlp, kind):
    table = make_table(kind)
    if kind == "pandas":
        table.index = [7, 8, 9, 5]
        table["kind"] = table["who"].astype("category")
    if kind == "polars":
        import polars

        kinds = polars.Enum(["Ann", "Bob", "so"])
        table = table.with_columns(table["who"].cast(kinds).alias("kind"))
    found = redact_columns(nlp, table, threshold=0.5)
    assert type(found.table) is type(table)
    if kind == "pandas":
        assert [*found.table.index] == [7, 8, 9, 5]
    new = pa.Table.from_pandas(found.table) if kind == "pandas" else pa.table(found.table)
    assert new.column_names[:4] == [*DATA] and new["n"].to_pylist() == DATA["n"]
    assert new["who"].to_pylist() == ["[PERSON]", None, "so", "[PERSON]"]
    assert new["text"].to_pylist()[::3] == ["[PERSON] saw [LOC] ."] * 2
    more = [["[PERSON]", None], [], None, ['{"x": "[PERSON]"}']]
    assert new["more"].to_pylist() == more
    if "kind" in new.column_names:
        assert new["kind"].to_pylist() == new["who"].to_pylist()
    verdicts = {verdict.column: verdict[1:] for verdict in found.columns}
    assert verdicts["text"] == (3, 2, *binomial_interval(2, 3))
    assert verdicts["who"] == (3, 2, *binomial_interval(2, 3)) and verdicts["more"][:2] == (2, 2)
    assert "text    3                 2, 66.7%" in repr(found)


def test_columns_are_chosen_and_undone(nlp):
    table, vault = make_table("arrow"), Vault()
    options = {"threshold": 0.5, "style": "numbered", "vault": vault}
    found = redact_columns(nlp, table, ["text"], **options)
    assert found.table["who"].to_pylist() == DATA["who"]
    assert [restore(x, vault).text for x in found.table["text"].to_pylist()] == DATA["text"]
    empty = redact_columns(nlp, table.slice(0, 0), threshold=0.5)
    assert empty.table.num_rows == 0 and empty.columns[0][1:] == (0, 0, 0.0, 1.0)
    with pytest.raises(ValueError, match="n: no such column of texts; expected who, text, more"):
        redact_columns(nlp, table, ["n"], threshold=0.5)


def test_names_of_pandas_may_be_no_strings(nlp):
    frame = pytest.importorskip("pandas").DataFrame({0: ["Ann saw Rome ."], ("a", 1): ["Bob"]})
    found = redact_columns(nlp, frame, threshold=0.5)
    assert found.table.iloc[:, 0].tolist() == ["[PERSON] saw [LOC] ."]
    assert [*found.table] == [*frame] and frame[0].tolist() == ["Ann saw Rome ."]
    assert found.table.iloc[0, 1] == "[PERSON]"


def test_views_in_parquet(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    old, new = tmp_path / "old.parquet", tmp_path / "new.parquet"
    parquet.write_table(pa.table({"a": pa.array(["Ann", None], pa.string_view())}), old)
    texts = (str(row).replace("Ann", "Bob") for row in read_rows(old, int))
    write_rows(old, new, texts, ())
    assert parquet.read_table(new)["a"].to_pylist() == ["Bob", None]


def test_a_row_that_fails_is_named(nlp, monkeypatch):
    make_doc = nlp.make_doc

    def fail(text):
        if text.startswith("Bob"):
            raise KeyError("bad")
        return make_doc(text)

    monkeypatch.setattr(nlp, "make_doc", fail)
    with pytest.raises(ValueError, match="row 4: 'bad'"):
        redact_columns(nlp, make_table("arrow"), threshold=0.5)


@pytest.mark.parametrize("table", [DATA, [DATA], "Ann"])
def test_what_is_no_table_is_named(nlp, table):
    with pytest.raises(TypeError, match=f"got {type(table).__name__}"):
        redact_columns(nlp, table, threshold=0.5)
