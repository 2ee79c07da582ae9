"""Sentences of two entities, a person and a place."""

from spacy.tokens import Doc

WORDS = {"PERSON": ("Ann", "Bob", "Eve"), "LOC": ("Rome", "Oslo", "Kiel")}


def make_docs(vocab, wrong=0):
    """Make sentences of two entities. wrong: number of sentences with swapped labels."""
    docs = []
    for person in WORDS["PERSON"]:
        for place in WORDS["LOC"]:
            ents = ["B-PERSON", "O", "B-LOC", "O"]
            if len(docs) < wrong:
                ents[0], ents[2] = ents[2], ents[0]
            docs.append(Doc(vocab, words=[person, "saw", place, "."], ents=ents))
    return docs
