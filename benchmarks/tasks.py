"""The tasks of `pipeline.py`: corpora, and configs of the contenders, alike but for one block."""

from dataclasses import dataclass
from pathlib import Path

from spacy.cli.init_config import init_config
from thinc.api import Config

from spacy_bcrf.corpora.convert import Reader, convert
from spacy_bcrf.corpora.formats.columns import read_columns
from spacy_bcrf.corpora.formats.conllu import read_conllu

HEADS = {
    "bcrf": "spacy-bcrf.BCRF.v1",
    "crf": "spacy-bcrf.CRF.v1",
    "mean field": "spacy-bcrf.MeanField.v1",
    "unstructured": "spacy-bcrf.Unstructured.v1",
    "sapo": "spacy-bcrf.SAPO.v1",
    "perceptron": "spacy-bcrf.Perceptron.v1",
    "mira": "spacy-bcrf.MIRA.v1",
}
# Those without probabilities, which label smoothing needs.
UNSMOOTHED = ("sapo", "perceptron", "mira")
# Those whose literature averages the weights of all steps.
AVERAGED = ("perceptron", "mira")
CONTENDERS = ("spacy", *HEADS)


@dataclass(frozen=True)
class Task:
    """component: spaCy's; ours is called the same with a `bcrf_` before it.
    files: train, dev and test under the corpora folder. steps: of training.
    score: what to compare, a key of spaCy's scorer.
    """

    component: str
    score: str
    steps: int
    files: tuple[str, ...]
    reader: Reader

    def corpora(self, source: Path, output: Path) -> dict[str, Path]:
        """The `.spacy` files of the parts, one sentence a Doc; made where they are missing."""
        paths = {}
        for part, file in zip(("train", "dev", "test"), self.files, strict=True):
            paths[part] = output / f"{part}.spacy"
            if not paths[part].exists():
                convert([(source / file, self.reader)], paths[part], lang="en")
        return paths

    def config(self, contender: str, corpora: dict[str, Path], steps: int, seed: int) -> Config:
        """spaCy's stock CPU config; only the component and its head are the contender's."""
        config = init_config(lang="en", pipeline=[self.component], optimize="efficiency", gpu=False)
        if contender in HEADS:
            # spaCy's stock config smooths the labels of its tagger.
            stock = config["components"][self.component]
            smoothed = contender not in UNSMOOTHED and "label_smoothing" in stock
            shared = {"label_smoothing": stock["label_smoothing"]} if smoothed else {}
            config["components"][self.component] = {
                **shared,
                "factory": f"bcrf_{self.component}",
                "model": {
                    "@architectures": "spacy-bcrf.SequenceLabeler.v1",
                    "tok2vec": stock["model"]["tok2vec"],
                    "head": {"@layers": HEADS[contender]},
                },
            }
        config["paths"].update({part: str(corpora[part]) for part in ("train", "dev")})
        config["training"].update({"max_steps": steps, "patience": 0})
        config["training"]["optimizer"]["use_averages"] = contender in AVERAGED
        config["system"]["seed"] = seed
        return config


TASKS = {
    "wnut": Task(
        component="ner",
        score="ents_f",
        steps=3000,
        files=(
            "wnut17/wnut17train.conll",
            "wnut17/emerging.dev.conll",
            "wnut17/emerging.test.annotated",
        ),
        reader=read_columns,
    ),
    "jnlpba": Task(
        component="ner",
        score="ents_f",
        steps=3000,
        files=("jnlpba/train.tsv.xz", "jnlpba/devel.tsv", "jnlpba/test.tsv"),
        reader=read_columns,
    ),
    "ewt": Task(
        component="tagger",
        score="tag_acc",
        steps=4000,
        files=tuple(
            f"ud-english-ewt/en_ewt-ud-{part}.conllu.xz" for part in ("train", "dev", "test")
        ),
        reader=read_conllu,
    ),
}
