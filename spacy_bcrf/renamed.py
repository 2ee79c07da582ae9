"""Old names of modules. Importing one raises an error that says the new name."""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType

COMMANDS = (
    "annotate audit calibrate clusters combine control convert curve debug distill explain extend "
    "init migrate monitor rank redact report serve tune"
)
FORMATS = "columns conllu crfsuite jsonl label_studio prodigy"
ANALYSIS = "control cross_fitting diversity evaluation gold_report label_errors loading resampling"
MODULES = {
    "spacy_bcrf.analysis.calibration": "spacy_bcrf.analysis.calibrate",
    "spacy_bcrf.analysis.combination": "spacy_bcrf.analysis.combine",
    "spacy_bcrf.analysis.config_errors": "spacy_bcrf.pipeline.config_errors",
    "spacy_bcrf.analysis.crfsuite_import": "spacy_bcrf.analysis.migrate",
    "spacy_bcrf.analysis.crowd": "spacy_bcrf.analysis.aggregate",
    "spacy_bcrf.analysis.curve": "spacy_bcrf.analysis.learning_curve",
    "spacy_bcrf.analysis.distillation": "spacy_bcrf.analysis.distill",
    "spacy_bcrf.analysis.drift": "spacy_bcrf.analysis.control.monitor",
    "spacy_bcrf.analysis.evidence": "spacy_bcrf.analysis.control.evidence",
    "spacy_bcrf.analysis.extension": "spacy_bcrf.analysis.extend",
    "spacy_bcrf.analysis.migration": "spacy_bcrf.analysis.migrate",
    "spacy_bcrf.analysis.promises": "spacy_bcrf.analysis.control.thresholds",
    "spacy_bcrf.analysis.ranking": "spacy_bcrf.analysis.rank",
    "spacy_bcrf.analysis.redaction": "spacy_bcrf.analysis.redact",
    "spacy_bcrf.analysis.reporting": "spacy_bcrf.analysis.report",
    "spacy_bcrf.analysis.risk_control": "spacy_bcrf.analysis.control.risk",
    "spacy_bcrf.analysis.suspects": "spacy_bcrf.analysis.audit",
    "spacy_bcrf.analysis.tuning": "spacy_bcrf.analysis.tune",
    "spacy_bcrf.analysis.weights": "spacy_bcrf.analysis.explain",
    "spacy_bcrf.annotation.html_table": "spacy_bcrf.annotation.display",
    "spacy_bcrf.annotation.schemes": "bcrf.schemes",
    "spacy_bcrf.bulk.predictions": "spacy_bcrf.bulk.predictor",
    "spacy_bcrf.chain": "bcrf.chain",
    "spacy_bcrf.cli.import": "spacy_bcrf.cli.migrate_cli",
    "spacy_bcrf.cli.inspect": "spacy_bcrf.cli.debug_cli",
    "spacy_bcrf.cli.mask": "experiments.partial.mask",
    "spacy_bcrf.cli.pages.audit": "spacy_bcrf.cli.audit_cli",
    "spacy_bcrf.cli.pages.lattice": "spacy_bcrf.cli.pages.lattice_page",
    "spacy_bcrf.cli.pages.report": "spacy_bcrf.cli.pages.report_page",
    "spacy_bcrf.cli.pages.typed_text": "spacy_bcrf.cli.pages.lattice_page",
    "spacy_bcrf.cli.texts": "spacy_bcrf.cli.text_docs",
    "spacy_bcrf.corpora.convert_records": "spacy_bcrf.corpora.convert",
    "spacy_bcrf.corpora.mask": "lab.masking",
    "spacy_bcrf.corpora.partial": "spacy_bcrf.corpora.partial_corpora",
    "spacy_bcrf.extras": "bcrf.io.extras",
    "spacy_bcrf.files": "bcrf.io.atomic",
    "spacy_bcrf.io": "bcrf.io and spacy_bcrf.corpora",
    "spacy_bcrf.kernels": "bcrf.kernels",
    "spacy_bcrf.layers.sequence_labeler": "spacy_bcrf.layers.network",
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
    "spacy_bcrf.sparse.crfsuite_attributes": "bcrf.linear.crfsuite_attributes",
    "spacy_bcrf.sparse.crfsuite_model": "bcrf.linear.crfsuite_model",
    "spacy_bcrf.sparse.explain": "spacy_bcrf.sparse.named_weights",
    "spacy_bcrf.sparse.learner": "bcrf.linear.learner",
    "spacy_bcrf.sparse.model_bytes": "bcrf.linear.model_bytes",
    "spacy_bcrf.sparse.rows": "bcrf.linear.rows",
    "spacy_bcrf.sparse.templates": "bcrf.linear.templates",
    "spacy_bcrf.tokenizers": "spacy_bcrf.annotation.tokenizers",
    "spacy_bcrf.torch": "bcrf.torch",
    **{
        f"spacy_bcrf.corpora.{name}": f"spacy_bcrf.corpora.formats.{name}"
        for name in FORMATS.split()
    },
    **{f"spacy_bcrf.pipeline.{name}": f"spacy_bcrf.analysis.{name}" for name in ANALYSIS.split()},
    **{f"spacy_bcrf.cli.{name}": f"spacy_bcrf.cli.{name}_cli" for name in COMMANDS.split()},
}


class _Renamed(MetaPathFinder):
    """The last finder of modules: Python asks it for names that no other finder knows."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        if fullname in MODULES:
            raise ModuleNotFoundError(f"{fullname} is now {MODULES[fullname]}", name=fullname)


sys.meta_path.append(_Renamed())
