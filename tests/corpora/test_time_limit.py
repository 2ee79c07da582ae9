"""Limits of time for documents."""

import threading
import time

import pytest
import spacy

from spacy_bcrf.corpora.time_limit import TookTooLongError, time_limit, watch_tokenizer


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
