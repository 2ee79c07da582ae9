"""Old names of modules. Importing one raises an error that says the new name."""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType

FORMATS = "columns conllu crfsuite jsonl label_studio prodigy"
ANALYSIS = "control cross_fitting diversity evaluation gold_report label_errors loading resampling"
MODULES = {
    "spacy_bcrf.annotation.schemes": "bcrf.schemes",
    "spacy_bcrf.chain": "bcrf.chain",
    "spacy_bcrf.corpora.mask": "lab.masking",
    "spacy_bcrf.corpora.partial": "spacy_bcrf.corpora.partial_corpora",
    "spacy_bcrf.extras": "bcrf.io.extras",
    "spacy_bcrf.files": "bcrf.io.atomic",
    "spacy_bcrf.io": "bcrf.io and spacy_bcrf.corpora",
    "spacy_bcrf.kernels": "bcrf.kernels",
    "spacy_bcrf.linear": "bcrf.linear and spacy_bcrf.sparse",
    "spacy_bcrf.pipeline.calibration": "spacy_bcrf.analysis.calibrate",
    "spacy_bcrf.pipeline.chunker": "spacy_bcrf.pipeline.span_recognizers",
    "spacy_bcrf.pipeline.combination": "spacy_bcrf.analysis.combine",
    "spacy_bcrf.pipeline.crowd": "spacy_bcrf.analysis.aggregate",
    "spacy_bcrf.pipeline.distillation": "spacy_bcrf.analysis.distill",
    "spacy_bcrf.pipeline.limits": "spacy_bcrf.corpora.time_limit",
    "spacy_bcrf.pipeline.migration": "spacy_bcrf.analysis.migrate",
    "spacy_bcrf.pipeline.ner": "spacy_bcrf.pipeline.span_recognizers",
    "spacy_bcrf.pipeline.overlapping": "spacy_bcrf.pipeline.span_recognizers",
    "spacy_bcrf.pipeline.risk_control": "spacy_bcrf.analysis.control.risk",
    "spacy_bcrf.pipeline.supervision": "spacy_bcrf.annotation.partial",
    "spacy_bcrf.pipeline.thresholds": "spacy_bcrf.pipeline.apply_thresholds",
    "spacy_bcrf.schemes": "bcrf.schemes",
    "spacy_bcrf.sklearn": "bcrf.sklearn",
    "spacy_bcrf.tokenizers": "spacy_bcrf.annotation.tokenizers",
    "spacy_bcrf.torch": "bcrf.torch",
    **{
        f"spacy_bcrf.corpora.{name}": f"spacy_bcrf.corpora.formats.{name}"
        for name in FORMATS.split()
    },
    **{f"spacy_bcrf.pipeline.{name}": f"spacy_bcrf.analysis.{name}" for name in ANALYSIS.split()},
}


class _Renamed(MetaPathFinder):
    """The last finder of modules: Python asks it for names that no other finder knows."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        if fullname in MODULES:
            raise ModuleNotFoundError(f"{fullname} is now {MODULES[fullname]}", name=fullname)


sys.meta_path.append(_Renamed())
