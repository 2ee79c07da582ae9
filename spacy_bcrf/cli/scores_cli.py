"""`python -m spacy bcrf scores`"""

from pathlib import Path
from typing import Annotated

import spacy
import typer
from spacy.cli._util import Arg
from spacy.util import load_config, minibatch
from tqdm import tqdm

from .errors import spacy_command
from .paths import check_corpus, read_corpus

BATCH_SIZE = 32
"""Documents that a source reads at once. A killed command loses a batch."""


def scores_cli(
    config: Annotated[
        Path, Arg(help="A training config or a trained pipeline with a setting scores", exists=True)
    ],
    corpora: Annotated[list[Path], Arg(help="Corpora, .spacy", exists=True)],
) -> str:
    """
    Run foreign taggers once and keep their scores in a file, so that training reads them. A
    killed command goes on where it stopped.
    """
    from spacy_bcrf.annotation.tokenizers import copy_words
    from spacy_bcrf.scores.find_sources import find_sources
    from spacy_bcrf.scores.token_scores import make_scorers

    file = config / "config.cfg" if config.is_dir() else config
    found = list(find_sources(load_config(file, interpolate=True)["components"]))
    if not found:
        raise ValueError(f"{file}: no component has the setting scores")
    if bad := [source.get("name") for source in found if source.get("cache") is None]:
        raise ValueError(f"{file}: scores {bad[0]!r} has no cache. Set it to a file")
    for corpus in corpora:
        check_corpus(corpus)
    nlp = spacy.blank("xx")
    for scorer in make_scorers(found):
        scorer.keeps = True
        n_texts = n_tokens = n_silent = 0
        # Training asks for texts without the annotation of the corpus.
        docs = (copy_words(doc, nlp.vocab) for corpus in corpora for doc in read_corpus(corpus))
        with tqdm(desc=scorer.name, unit="docs", disable=None) as bar:
            for batch in minibatch(docs, BATCH_SIZE):
                for scores in scorer.find(batch):
                    n_texts += 1
                    n_tokens += len(scores.values)
                    n_silent += int(scores.silent.sum())
                bar.update(len(batch))
        n_cut = getattr(scorer.source, "n_cut", 0)
        typer.echo(
            f"{scorer.name}: {n_texts:,} texts, {n_tokens:,} tokens, {n_silent:,} without scores, "
            f"{scorer.n_failed:,} texts failed{f', {n_cut:,} spans cut tokens' if n_cut else ''}; "
            f"kept in {scorer.config['cache']}"
        )
    return spacy_command("train", file, "--output", "training")
