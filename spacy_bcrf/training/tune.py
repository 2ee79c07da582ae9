"""Search of the settings of a sparse linear chain on a dev corpus, by successive halving."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from spacy.language import Language
from spacy.training import Example
from spacy.util import load_model_from_config
from thinc.api import Config

from bcrf.io.text import CorpusError
from spacy_bcrf.annotation.tokenizers import copy_words
from spacy_bcrf.corpora.identity import hash_identity, keep_identity, keep_part
from spacy_bcrf.judging.evaluation import count_exact, score
from spacy_bcrf.judging.folds import collect_labels, fit_sparse_chain
from spacy_bcrf.judging.resampling import bootstrap_scores, percentile_interval
from spacy_bcrf.layers.linear_chain import is_chain_alone
from spacy_bcrf.loading import load_pipeline, read_corpus
from spacy_bcrf.pipeline.sequence_labeler import SequenceLabeler
from spacy_bcrf.sparse.template_sets import SETS, get_templates

from .combine import check_same, combine, find_common

SHARES = (1 / 9, 1 / 3, 1.0)
"""Share of the training documents in each round. A round keeps a third of the candidates."""
CLUSTER_TEMPLATES = ("cluster.{}(4,6,10,20)[-1..1]", "cluster.{}[-1..1]")
"""For paths of bits and for other clusters: prefixes, or the whole cluster."""

TrialSettings = dict[str, Any]


@dataclass(frozen=True)
class Trial:
    """A candidate trained on a share of the training documents.

    settings: what differs from the config; `passes` is of training, `network` is the pipeline whose
    potentials the trial adds to the chain's, the others are of the model.
    f, low, high: F on dev, and the bounds of its 95% interval. problem: why training failed.
    """

    settings: TrialSettings
    share: float
    f: float = 0.0
    low: float = 0.0
    high: float = 0.0
    seconds: float = 0.0
    problem: str = ""

    @property
    def changes(self) -> str:
        """The settings as text, "config" without any."""
        values = {
            key: f"{len(value)} lines" if isinstance(value, list) else value
            for key, value in self.settings.items()
        }
        return ", ".join(f"{key}={value}" for key, value in values.items()) or "config"

    def __str__(self) -> str:
        interval = f"{100 * self.low:.2f}-{100 * self.high:.2f}"
        start = f"{self.share:5.0%} {100 * self.f:6.2f}  {interval:<14} {self.seconds:5.1f}"
        return f"{start}  {self.changes}" + (f" ({self.problem})" if self.problem else "")


@dataclass(repr=False)
class Tuning:
    """The trials of a search in their order. is_done: whether all rounds ended in time."""

    trials: list[Trial] = field(default_factory=list)
    is_done: bool = False

    @property
    def best(self) -> Trial | None:
        """The best trial on the largest share that the unchanged config was trained on."""
        shares = [trial.share for trial in self.trials if not trial.settings]
        last = [trial for trial in self.trials if shares and trial.share == max(shares)]
        return max(last, key=lambda trial: trial.f, default=None)

    def __repr__(self) -> str:
        best = self.best
        if best is None:
            return "no trial ended"
        before = max(t.f for t in self.trials if t.share == best.share and not t.settings)
        if not best.settings:
            return f"no settings have a higher F than yours, {100 * before:.2f}"
        shares = f", with {best.share:.0%} of the documents" * (best.share < 1)
        return f"F {100 * before:.2f} before, {100 * best.f:.2f} with {best.changes}{shares}"

    def lines(self) -> Iterator[str]:
        """Yield a table of the trials, the best on the largest share first."""
        yield f"{'share':>5} {'F':>6}  {'95% interval':<14} {'s':>5}  settings"
        yield from map(str, sorted(self.trials, key=lambda trial: (-trial.share, -trial.f)))


def tune(
    config: Config,
    folder: Path,
    minutes: float,
    n_candidates: int = 18,
    seed: int = 0,
    after: Callable[[Trial], None] = lambda trial: None,
    network: str | None = None,
) -> Tuning:
    """Search templates, clusters, l2, passes, order, objective, feature_dropout and two_pass.

    Successive halving (Jamieson and Talwalkar 2016): each round trains the candidates on a larger
    share of the training corpus and keeps the best third on dev. The unchanged config stays in
    every round. `folder` keeps each trial, so that the same call goes on after an interruption.

    config: a training config whose pipeline has one component, with `spacy-bcrf.LinearChain.v1`.
    minutes: no trial starts later. n_candidates: of the first round. after: receives each new
    trial. network: a trained pipeline with a component of the same name; the last trial is its sum
    with the best chain, see `combine`. Dev chooses the two weights of the sum too, so its F is a
    little too high.
    ValueError for another pipeline, no annotation, or if both cannot be one component.
    """
    end = time.monotonic() + 60 * minutes
    name, nlp = _load(config)
    pipe: Any = nlp.get_pipe(name)
    train, dev = (list(read_corpus(nlp, part)) for part in ("train", "dev"))
    for part, examples in (("train", train), ("dev", dev)):
        collect_labels(f"the {part} corpus", [eg.reference for eg in examples], pipe, name)
    model = config["components"][name]["model"]
    corpora = sha256()
    for example in (*train, *dev):
        corpora.update(example.reference.to_bytes(exclude=["tensor", "user_data"]))
    identity = {"corpora": corpora.hexdigest(), "candidates": n_candidates, "seed": seed}
    other, digest = None, ""
    if network:
        # The first chain of two passes would be trained.
        chain = load_model_from_config(apply_settings(config, {"two_pass": False}), auto_fill=True)
        chain.initialize(lambda: train)
        other = _load_network(network, name, chain)
        digest = sha256(other.to_bytes()).hexdigest()
    keep_identity(folder / "search.json", {**identity, "config": config})
    found = Tuning()
    order = np.random.default_rng(seed).permutation(len(train))
    # A second-order chain has no chains side by side.
    orders = [1] if pipe.codec.layered else [1, 2]
    kept = list(_candidates(model, n_candidates, seed, orders))

    def run_trial(settings: TrialSettings, share: float) -> bool:
        """Try settings, or take the trial of an earlier call. False after `minutes`."""
        of_network = digest if "network" in settings else ""
        path = folder / f"{hash_identity({'of': [settings, share, of_network]})}.json"
        is_new = not path.exists()
        if is_new and time.monotonic() >= end:
            return False

        def make() -> dict[str, Any]:
            part = [train[i] for i in order[: max(1, round(share * len(train)))]]
            return asdict(_try(config, name, nlp, settings, share, part, dev, other))

        found.trials.append(keep_part(path, make, lambda values: Trial(**values)))
        if is_new:
            after(found.trials[-1])
        return True

    for share in SHARES:
        if not all(run_trial(settings, share) for settings in kept):
            return found
        of_round = found.trials[-len(kept) :]
        changed = sorted((t for t in of_round if t.settings), key=lambda t: -t.f)
        kept = [{}, *(t.settings for t in changed[: max(1, len(of_round) // 3)])]
    best = found.best
    if network and best:
        found.is_done = run_trial({**best.settings, "network": network}, best.share)
    else:
        found.is_done = True
    return found


def apply_settings(config: Config, settings: TrialSettings) -> Config:
    changed = config.copy()
    (name,) = changed["nlp"]["pipeline"]
    of_model = {key: settings[key] for key in settings.keys() - {"passes", "network"}}
    changed["components"][name]["model"].update(of_model)
    if "passes" in settings:
        changed["training"].update(max_epochs=settings["passes"], max_steps=0, patience=0)
    return changed


def _candidates(
    model: TrialSettings, n: int, seed: int, orders: Sequence[int]
) -> Iterator[TrialSettings]:
    space: dict[str, list[Any]] = {
        "templates": list(_template_choices(model)),
        "objective": ["crf", "sapo"],
        "order": list(orders),
        "l2": [0.0, 0.1, 1.0],
        "passes": [5, 10, 20],
        "feature_dropout": [0.0, 0.2, 0.3],
        "two_pass": [False, True],
    }
    rng = np.random.default_rng(seed)
    seen: set[str] = set()
    yield {}
    for _ in range(20 * n):
        chosen = {key: values[int(rng.integers(len(values)))] for key, values in space.items()}
        if chosen["objective"] != "crf":
            chosen["order"] = 1
        text = json.dumps(chosen)
        if text not in seen and len(seen) < n - 1:
            seen.add(text)
            yield chosen


def _template_choices(model: TrialSettings) -> Iterator[str | list[str]]:
    """Yield the templates of the config, of the sets, and of both with the config's clusters."""
    clusters = model.get("clusters") or {}
    own = model["templates"]
    sets = [name for name in SETS if not name.endswith("-brown")]
    # A chain over characters has other templates than one over words.
    sets = [] if own == "segmentation" else [s for s in sets if s not in (own, "segmentation")]
    for base in [own, *sets]:
        yield base
        texts = get_templates(base) if isinstance(base, str) else list(base)
        texts = [text for text in texts if not ("cluster." in text or "compound." in text)]
        several = [list(clusters)] if len(clusters) > 1 else []
        for names in [[name] for name in clusters] + several:
            yield texts + [CLUSTER_TEMPLATES[0].format(name) for name in names]


def _try(
    config: Config,
    name: str,
    nlp: Language,
    settings: TrialSettings,
    share: float,
    train: Sequence[Example],
    dev: Sequence[Example],
    network: Language | None,
) -> Trial:
    """Train a candidate and judge it on dev. A setting that cannot be learned gets F 0."""
    start = time.process_time()
    passes = settings.get("passes") or config["training"]["max_epochs"] or 10
    changed = apply_settings(config, settings)
    try:
        candidate = load_model_from_config(changed, vocab=nlp.vocab, auto_fill=True)
        fit_sparse_chain(candidate, train, passes)
        if "network" in settings and network:
            parts = {"chain": candidate, "network": network}
            candidate = combine(parts, [example.reference for example in dev], name).nlp
    except ValueError as error:
        return Trial(settings, share, problem=str(error))
    examples = [Example(copy_words(eg.predicted, candidate.vocab), eg.reference) for eg in dev]
    counts = count_exact(candidate, name, examples)[:, None]
    f = np.nan_to_num(score(counts.sum(axis=0))[0, 2])
    low, high = percentile_interval(np.nan_to_num(bootstrap_scores(counts)[:, 0, 2]))
    seconds = time.process_time() - start
    return Trial(settings, share, float(f), float(low), float(high), seconds)


def _load(config: Config) -> tuple[str, Language]:
    """Return the only component of a config, and its pipeline. ValueError for another pipeline."""
    nlp = load_model_from_config(config, auto_fill=True)
    if len(nlp.pipeline) == 1:
        ((name, pipe),) = nlp.pipeline
        if isinstance(pipe, SequenceLabeler) and is_chain_alone(pipe.model):
            return name, nlp
    raise ValueError(
        "expected a pipeline with one component, whose model is spacy-bcrf.LinearChain.v1; got "
        f"{', '.join(nlp.pipe_names) or 'no component'}"
    )


def _load_network(model: str, name: str, chain: Language) -> Language:
    """Load a trained pipeline. CorpusError names it unless it can be summed with the chain."""
    try:
        pipelines = {"the config": chain, model: load_pipeline(model)}
        check_same(find_common(pipelines, name), pipelines)
    except ValueError as error:
        raise CorpusError(str(error)) from None
    return pipelines[model]
