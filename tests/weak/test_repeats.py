"""Repeats of entities in texts."""

import numpy as np
import pytest
import spacy

from spacy_bcrf.weak.repeats import Repeats

NLP = spacy.blank("en")


@pytest.mark.parametrize("phrase", ["St. Louis", "El Paso", "IL 2 receptor", "New York", "Rome"])
def test_a_phrase_is_found_again_whatever_its_first_word(phrase):
    (learned, other), n = NLP.pipe([f"From {phrase} now", f"We in {phrase} too"]), len(NLP(phrase))
    repeats = Repeats()
    repeats.learn([learned], [(1, 1 + n, 0)])
    nothing = np.zeros(len(other), dtype=int)
    assert repeats.find([other], [], nothing, nothing > 0) == [(2, 2 + n, 0)]
