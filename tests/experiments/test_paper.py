"""Configs and tables of the Bregman CRF paper's experiments, without training."""

from statistics import mean, stdev

import pytest
from spacy.util import load_model_from_config
from thinc.api import Config

from bcrf.chain import BCRF
from experiments.paper.results import write_results
from lab.paper import DECODED_BY, EXPERIMENTS, SCALES, make_config
from lab.tables import mean_and_deviation


def make_nlp(scale, experiment="pos", variant="0 layers"):
    """Return the pipeline of a run with the BCRF."""
    files = {part: f"{part}.spacy" for part in ("train", "dev", "partial")}
    setting = experiment, variant, "BCRF", SCALES[scale], 0, files, "en", None
    return load_model_from_config(Config(make_config(*setting)), auto_fill=True)


def test_full_has_the_papers_model():
    nlp = make_nlp("full")
    model = nlp.get_pipe("bcrf_tagger").model
    head = model.get_ref("output_layer")
    assert head.attrs["objective"] == BCRF(n_iter=10, relaxation=1.0)
    assert head.attrs["scale"] == 1
    assert [layer.name for layer in head.layers] == ["pairwise", "relu"]
    assert model.get_ref("tok2vec").get_ref("embed").name == "char_conv_embed"
    assert model.get_ref("tok2vec").get_dim("nO") == 768
    assert SCALES["full"].seeds == 5


@pytest.mark.parametrize("experiment", ["seg", "ner"])
def test_full_has_a_config_for_each_experiment(experiment):
    nlp = make_nlp("full", experiment, variant=EXPERIMENTS[experiment].variants[0])
    assert nlp.pipe_names == [EXPERIMENTS[experiment].component]


@pytest.mark.parametrize("seeds", [1, 3])
def test_tables_have_mean_and_deviation(seeds, tmp_path):
    pytest.importorskip("matplotlib", reason="draws a figure")
    runs = {}
    for seed in range(seeds):
        for corpus, base in (("de", 90.0), ("mine", 70.0)):
            for objective, decoders in DECODED_BY.items():
                score = base + seed**2
                runs[corpus, "0 layers", objective, seed] = {
                    f"test {decoder}": score for decoder in decoders
                }
    table = write_results(tmp_path, "pos", runs)
    assert (tmp_path / "results.md").read_text() == table
    de, mine = [base + mean(s**2 for s in range(seeds)) for base in (90, 70)]
    line = "| CRF | Viterbi | {} (94.1) | {} |"
    if seeds == 1:
        assert "one seed" in table
        assert line.format("90.0", "70.0") in table
    else:
        deviation = stdev(s**2 for s in range(seeds))
        assert "mean ± deviation of 3 seeds" in table
        cells = (f"{value:.1f} ± {deviation:.1f}" for value in (de, mine))
        assert line.format(*cells) in table
        row = f"de,0 layers,CRF,Viterbi,{de:.2f},{deviation:.2f},94.1,3"
        assert row in (tmp_path / "results.csv").read_text().splitlines()


def test_a_single_value_has_no_deviation():
    assert mean_and_deviation([93.81]) == "93.81"
    assert mean_and_deviation([1, 2, 4], digits=1) == "2.3 ± 1.5"
