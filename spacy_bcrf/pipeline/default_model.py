"""The model of a component whose config names none: spaCy's own token vectors and a BCRF head."""

from thinc.api import Config

DEFAULT_MODEL = Config().from_str(
    """
[model]
@architectures = "spacy-bcrf.SequenceLabeler.v1"

[model.tok2vec]
@architectures = "spacy.HashEmbedCNN.v2"
pretrained_vectors = null
width = 96
depth = 4
embed_size = 2000
window_size = 1
maxout_pieces = 3
subword_features = true

[model.head]
@layers = "spacy-bcrf.BCRF.v1"
"""
)["model"]
