"""Sentences of two entities, a person and a place."""

from spacy.tokens import Doc

WORDS = {"PERSON": ("Ann", "Bob", "Eve"), "LOC": ("Rome", "Oslo", "Kiel")}


def make_docs(vocab, wrong=0, tags=None):
    """Make sentences of two entities. wrong: number of sentences with swapped labels."""
    docs = []
    for person in WORDS["PERSON"]:
        for place in WORDS["LOC"]:
            ents = ["B-PERSON", "O", "B-LOC", "O"]
            if len(docs) < wrong:
                ents[0], ents[2] = ents[2], ents[0]
            words = [person, "saw", place, "."]
            docs.append(Doc(vocab, words=words, ents=ents, tags=tags and [*tags]))
    return docs


def repeat(docs, n):
    """Return documents n times, each with another number of line ends behind: no copies."""
    found = []
    for i in range(1, n + 1):
        for doc in docs:
            tags = [*(token.tag_ for token in doc), ""]
            ents = [*(f"{t.ent_iob_}-{t.ent_type_}".strip("-") for t in doc), "O"]
            words = [*(token.text for token in doc), "\n" * i]
            ents = ents if doc.has_annotation("ENT_IOB") else None
            found.append(Doc(doc.vocab, words=words, tags=tags, ents=ents))
    return found
