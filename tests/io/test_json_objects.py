"""JSON objects, one per line or all in one list."""

import gzip
import json
import tracemalloc

import pytest

from bcrf.io.json_objects import Problem, parse_object, read_objects
from bcrf.io.text import BLOCK, MAX_LINE, CorpusError

REFUSED = {
    '{"spans": [1], "text": "a", "spans": []}': 'an object has 2 values of "spans"; expected one',
    '{"text": "a", "meta": {"b": 1, "b": 1, "b": 1}}': 'an object has 3 values of "b"',
    '{"text": "a", "score": 1e400}': "1e400 is not a finite number",
    '{"text": "a", "score": -1e400}': "-1e400 is not a finite number",
    '{"text": "a", "score": NaN}': "NaN is not a finite number",
    '{"text": "a", "score": [-Infinity]}': "-Infinity is not a finite number",
}


@pytest.mark.parametrize("text", REFUSED)
@pytest.mark.parametrize("form", ["{}\n{}\n{}", "[{},\n{},\n{}]"])
def test_repeated_keys_and_infinite_numbers_are_problems(tmp_path, text, form):
    with pytest.raises(Problem) as caught:
        parse_object(text)
    assert str(caught.value).startswith(REFUSED[text])
    path = tmp_path / "in.json"
    path.write_text(form.format('{"a": 1}', text, '{"b": {"a": 1}}'))
    first, problem, last = read_objects(path)
    assert (first.value, last.value) == ({"a": 1}, {"b": {"a": 1}})
    assert problem.place == f"{path}:2" and str(problem.value).startswith(REFUSED[text])


@pytest.mark.parametrize("indent", [None, 1])
def test_a_list_of_several_pieces(tmp_path, indent):
    items = [{"text": "\U0001f600\n" * (i % 3 * 90_000), "i": [i, -1.5]} for i in range(12)]
    text = json.dumps(items, indent=indent, ensure_ascii=False)
    assert len(text.encode()) > 6 * BLOCK
    path = tmp_path / "in.json"
    path.write_text(text, encoding="utf8")
    found = list(read_objects(path))
    assert [item.value for item in found] == items
    lines = [i for i, line in enumerate(text.split("\n"), 1) if line == " {"] or [1] * 12
    assert [item.place for item in found] == [f"{path}:{line}" for line in lines]


@pytest.mark.parametrize("number", ["12", "-1.5", "1e+5"])
@pytest.mark.parametrize("before", range(-4, 2))
def test_numbers_across_pieces(tmp_path, number, before):
    path = tmp_path / "in.json"
    path.write_text("[" + " " * (BLOCK - 1 + before) + number + ', {"a": 1}]')
    problem, item = read_objects(path)
    assert item.value == {"a": 1}
    assert str(problem.value) == f"expected an object, got {json.dumps(json.loads(number))}"


@pytest.mark.parametrize(
    "start, message",
    [
        (b'[{"text": "', r"bomb.json.gz:1: an item of more than 16,777,216 characters"),
        (b"[{}, ", r"bomb.json.gz:1: no JSON: Expecting value"),
        (b'\n{"text": "', "more than 16,777,216 characters; expected one record on each line"),
    ],
)
def test_bombs_are_refused_in_little_memory(tmp_path, start, message):
    path = tmp_path / "bomb.json.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(start)
        for _ in range(20):
            file.write(b" " * BLOCK)
    tracemalloc.start()
    try:
        ((place, value),) = [item for item in read_objects(path) if item.value != {}]
        assert place == f"{path}:2"
    except CorpusError as error:
        value = error
    assert message in str(value)
    assert tracemalloc.get_traced_memory()[1] < 5 * MAX_LINE
    tracemalloc.stop()


def test_white_space_between_items_is_no_part_of_them(tmp_path):
    path = tmp_path / "wide.json"
    path.write_bytes(b'[{"a": 1},' + (b" " * MAX_LINE + b"\n") * 2 + b'{"a": 1, "a": 2}, {"a": 3}]')
    first, problem, last = read_objects(path)
    assert (first.value, last.value) == ({"a": 1}, {"a": 3})
    assert problem.place == f"{path}:3" and isinstance(problem.value, Problem)
