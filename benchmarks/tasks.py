"""Tasks of `benchmarks.pipeline`: corpora, and configs that differ in one block."""

from dataclasses import dataclass
from pathlib import Path

from spacy.cli.init_config import init_config
from thinc.api import Config

from lab.corpora import Corpus, convert_parts
from lab.paper import EXPERIMENTS

HEADS = {
    "bcrf": "spacy-bcrf.BCRF.v1",
    "crf": "spacy-bcrf.CRF.v1",
    "mean field": "spacy-bcrf.MeanField.v1",
    "unstructured": "spacy-bcrf.Unstructured.v1",
    "sapo": "spacy-bcrf.SAPO.v1",
    "perceptron": "spacy-bcrf.Perceptron.v1",
    "mira": "spacy-bcrf.MIRA.v1",
}
# Heads without probabilities have no label smoothing.
UNSMOOTHED = ("sapo", "perceptron", "mira")
# The literature averages the weights of these heads over all steps.
AVERAGED = ("perceptron", "mira")
CONTENDERS = ("spacy", *HEADS)


@dataclass(frozen=True)
class Task:
    """A corpus and a component to train on it.

    component: factory of spaCy's component; `bcrf_` before it names ours.
    score: key of spaCy's scorer that the table reports.
    steps: training steps.
    """

    component: str
    score: str
    steps: int
    corpus: Corpus

    def corpora(self, source: Path, output: Path) -> dict[str, Path]:
        """Return the `.spacy` files of the corpus. Convert the missing ones."""
        return convert_parts(source, self.corpus, f"{output}/")

    def config(
        self, contender: str, corpora: dict[str, Path], steps: int, seed: int, accelerated: bool
    ) -> Config:
        """Return spaCy's stock CPU config with the component and head of the contender.

        accelerated: whether compiled layers run spaCy's encoder, with the same outputs.
        """
        lang = self.corpus.lang
        config = init_config(lang=lang, pipeline=[self.component], optimize="efficiency", gpu=False)
        if accelerated:
            callback = {"@callbacks": "spacy-bcrf.Accelerate.v1"}
            config["nlp"]["after_pipeline_creation"] = callback
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
    "wnut": Task("ner", "ents_f", 3000, EXPERIMENTS["ner"].corpora["wnut"]),
    "jnlpba": Task("ner", "ents_f", 3000, EXPERIMENTS["ner"].corpora["jnlpba"]),
    "ewt": Task("tagger", "tag_acc", 4000, EXPERIMENTS["pos"].corpora["en"]),
    "french": Task("tagger", "tag_acc", 3000, EXPERIMENTS["pos"].corpora["fr"]),
}
