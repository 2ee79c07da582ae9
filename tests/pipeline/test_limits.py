"""Limits of time for documents."""

import threading
import time

import pytest
import spacy

from spacy_bcrf.pipeline.limits import (
    TookTooLongError,
    predict_in_parts,
    time_limit,
    watch_tokenizer,
)


def test_a_tokenizer_ends_in_any_thread_and_is_right_afterwards():
    nlp, plain = spacy.blank("en"), spacy.blank("en")
    watch_tokenizer(nlp)
    watch_tokenizer(nlp)
    found = []

    def tokenize():
        try:
            with time_limit(0.1):
                nlp.make_doc("(" * 20_000)
        except TookTooLongError as error:
            found.append(str(error))

    tokenize()
    thread = threading.Thread(target=tokenize)
    thread.start()
    thread.join()
    assert found == ["took longer than 0.1 s"] * 2
    for text in ("((Ann)) isn't in http://a.b/c, U.S.!", "((((", "(" * 50):
        assert [t.text for t in nlp(text)] == [t.text for t in plain(text)]
    assert nlp.tokenizer.to_bytes() == plain.tokenizer.to_bytes()


def test_code_of_the_main_thread_ends_and_other_code_has_its_time():
    with pytest.raises(TookTooLongError), time_limit(0.05):
        time.sleep(5)
    with time_limit(0.5):
        pass
    time.sleep(0.6)
    with time_limit(0):
        time.sleep(0.01)


def test_what_fails_is_found_by_halves():
    batches, reports = [], []

    def predict(numbers):
        batches.append(len(numbers))
        if {3, 6} & set(numbers):
            raise RuntimeError("no")
        return [n * 2 for n in numbers]

    found = predict_in_parts(predict, range(8), lambda error, size: reports.append(size))
    assert [str(one) for one in found] == ["0", "2", "4", "no", "8", "10", "no", "14"]
    assert max(reports) == 8 and len(batches) < 16
