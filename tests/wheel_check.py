"""Check an installed wheel by an import, the kernels and a tiny training: python wheel_check.py"""

import numpy as np
import spacy
from spacy.training import Example

from bcrf.chain import BCRF, CRF, Potentials

TEXT = "Ada Lovelace lived in London"
GOLD = {"entities": [(0, 12, "PERSON"), (22, 28, "LOC")]}

NETWORK = {
    "@architectures": "spacy-bcrf.SequenceLabeler.v1",
    "tok2vec": {
        "@architectures": "spacy-bcrf.HashEmbedCNN.v1",
        "pretrained_vectors": None,
        "width": 32,
        "depth": 1,
        "embed_size": 200,
        "window_size": 1,
        "maxout_pieces": 3,
        "subword_features": True,
    },
    "head": {"@layers": "spacy-bcrf.BCRF.v1"},
}


def main() -> None:
    rng = np.random.default_rng(0)
    unary, transitions = rng.normal(size=(7, 5)), rng.normal(size=(5, 5))
    potentials = Potentials(unary, transitions, np.array([3, 4], dtype="int32"))
    for inference in (CRF(), BCRF()):
        marginals = inference.marginals(potentials).unary
        np.testing.assert_allclose(marginals.sum(axis=1), 1, atol=1e-9)
    for model in (None, NETWORK):
        nlp = spacy.blank("en")
        config = {"annotate": ["confidence"]} | ({"model": model} if model else {})
        nlp.add_pipe("bcrf_ner", config=config)
        examples = [Example.from_dict(nlp.make_doc(TEXT), GOLD)]
        optimizer = nlp.initialize(lambda examples=examples: examples)
        for _ in range(30):
            nlp.update(examples, sgd=optimizer)
        ents = nlp(TEXT).ents
        assert [(e.start_char, e.end_char, e.label_) for e in ents] == GOLD["entities"]
        print([(ent.text, ent.label_, round(ent._.confidence, 2)) for ent in ents])


if __name__ == "__main__":
    main()
