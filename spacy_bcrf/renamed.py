"""Old names of modules. Importing one raises an error that says the new name."""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType

MODULES = {
    "spacy_bcrf.annotation.html_table": "spacy_bcrf.annotation.display",
    "spacy_bcrf.annotation.schemes": "bcrf.schemes",
    "spacy_bcrf.chain": "bcrf.chain",
    "spacy_bcrf.corpora.partial": "spacy_bcrf.corpora.partial_corpora",
    "spacy_bcrf.io": "bcrf.io",
    "spacy_bcrf.kernels": "bcrf.kernels",
    "spacy_bcrf.layers.sequence_labeler": "spacy_bcrf.layers.network",
    "spacy_bcrf.pipeline.chunker": "spacy_bcrf.pipeline.span_recognizers",
    "spacy_bcrf.pipeline.ner": "spacy_bcrf.pipeline.span_recognizers",
    "spacy_bcrf.pipeline.overlapping": "spacy_bcrf.pipeline.span_recognizers",
    "spacy_bcrf.pipeline.limits": "spacy_bcrf.corpora.time_limit",
    "spacy_bcrf.sklearn": "bcrf.sklearn",
    "spacy_bcrf.sparse.crfsuite_attributes": "bcrf.linear.crfsuite_attributes",
    "spacy_bcrf.sparse.crfsuite_model": "bcrf.linear.crfsuite_model",
    "spacy_bcrf.sparse.learner": "bcrf.linear.learner",
    "spacy_bcrf.sparse.model_bytes": "bcrf.linear.model_bytes",
    "spacy_bcrf.sparse.rows": "bcrf.linear.rows",
    "spacy_bcrf.sparse.templates": "bcrf.linear.templates",
    "spacy_bcrf.torch": "bcrf.torch",
}


class _Renamed(MetaPathFinder):
    """The last finder of modules: Python asks it for names that no other finder knows."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        if fullname in MODULES:
            raise ModuleNotFoundError(f"{fullname} is now {MODULES[fullname]}", name=fullname)


sys.meta_path.append(_Renamed())
