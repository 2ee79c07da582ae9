"""Documents as sequences of features, which `bcrf.sklearn.CRF` and python-crfsuite read."""

from collections.abc import Iterable

from spacy.tokens import Doc

from spacy_bcrf.annotation.extensions import set_extensions

from .features import Features
from .template_sets import get_templates


def crfsuite_tokens(docs: Iterable[Doc], templates: str = "ner") -> list[list[list[str]]]:
    """Return the features of each token of each document: a list of str by token.

    They are the values of `token._.crfsuite` if the document has some, else those of the templates,
    a name of `template_sets.SETS`. Raises ValueError for another name.

    >>> import spacy
    >>> from spacy_bcrf.sparse.crfsuite_tokens import crfsuite_tokens
    >>> [[ann, left]] = crfsuite_tokens([spacy.blank("en")("Ann left")])
    >>> ann[1:3], left[1:3]
    (['orth[-1]=<-1>', 'orth[0]=Ann'], ['orth[-1]=Ann', 'orth[0]=left'])
    """
    set_extensions()
    features = Features(get_templates(templates))
    sequences = []
    for doc in docs:
        given = [list(token._.crfsuite) for token in doc]
        sequences.append(given if any(given) else features.describe(doc))
    return sequences
