"""Training and decoding time including the network, as in Tables 2 and 3 of Corro et al. (2025).

    python -m benchmarks.paper_tables --corpora DIR

The baseline is the paper's: the forward algorithm and Viterbi in PyTorch. All contenders share the
network, which scores tags and the T x T transitions of each edge. They differ in inference only.
Times are for one batch. Training includes everything but the optimizer's step. Decoding goes from
documents to tags.
"""

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc
from spacy.vocab import Vocab
from thinc.api import chain, require_gpu

from bcrf import kernels
from bcrf.chain import BCRF, CRF, Inference, MeanField, Potentials
from benchmarks.timing import interleave
from benchmarks.torch_heads import PlainCRF, check_agreement
from lab.figures import make_figure, save_figure
from lab.machine import describe_machine
from lab.options import add_options, need
from lab.paper import DECODERS, EXPERIMENTS, SCALES
from lab.tables import print_table
from spacy_bcrf.layers.decoding import get_decoder
from spacy_bcrf.layers.heads import CRF as crf_head
from spacy_bcrf.layers.self_attentive import SelfAttentiveEncoder

# Experiment whose train part gives the sentence lengths, and number of tags. "pos" has lengths in
# words, "seg" in characters.
TASKS = {"en": ("pos", 17), "zh": ("seg", 64), "ja": ("seg", 64)}
TRAINED: dict[str, Inference] = {
    "CRF": CRF(),
    "MF 10": MeanField(10),
    "BCRF 10": BCRF(10, relaxation=1.0),
    "BCRF 10, relaxed": BCRF(10, relaxation=1.25),
}
DECODED = {title: decoder for title, decoder in DECODERS.items() if title != "argmax"}
# The paper's speedups of MF and BCRF with 10 iterations, by layers.
PAPER = {
    "training": {
        "en": ("5.0/6.1", "3.9/4.1", ""),
        "zh": ("8.8/7.8", "5.5/5.4", "4.1/4.0"),
        "ja": ("12.1/12.3", "5.6/5.9", "4.4/4.5"),
    },
    "decoding": {
        "en": ("8.0/4.9", "6.2/4.4", ""),
        "zh": ("9.5/5.2", "7.1/4.6", "5.8/3.8"),
        "ja": ("19.8/11.0", "10.5/7.7", "8.7/6.8"),
    },
}
LAYERS = (0, 2, 4)
Row = dict[str, object]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser, needs_corpora=True)
    parser.add_argument("--gpu", type=int, default=-1, help="number of the GPU; -1 is the CPU")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, default=16, help="sentences")
    parser.add_argument("--scale", choices=SCALES, default="full", help="full: the paper's encoder")
    parser.add_argument("--layers", type=int, nargs="+", default=LAYERS)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--plot", type=Path, metavar="FILE.png")
    args = parser.parse_args()
    torch = need("torch", "torch")
    if args.gpu >= 0:
        require_gpu(args.gpu)
    torch.set_num_threads(1)
    kernels.set_threads(1)
    rows: list[Row] = []
    for name in args.tasks:
        for layers in args.layers:
            rows += measure(name, layers, args)
    notes = (
        f"{describe_machine(['numpy', 'thinc', 'torch'])}; {'CPU' if args.gpu < 0 else 'GPU'}\n"
        f"{args.batch} sentences a batch, network of width {SCALES[args.scale].width}, one thread; "
        "ms for a batch in PyTorch, and times faster than PyTorch; median of "
        f"{args.rounds} interleaved rounds"
    )
    print_table("Tables 2 and 3", rows, notes, args.csv)
    if args.plot:
        draw(args.plot, rows)


def measure(name: str, layers: int, args: argparse.Namespace) -> list[Row]:
    """Return the rows of training and decoding with sentences of one corpus."""
    experiment, n_tags = TASKS[name]
    rng = np.random.default_rng(0)
    lengths = rng.choice(read_lengths(args.corpora, experiment, name), args.batch)
    model = make_model(layers, n_tags, args.scale)
    vocab = Vocab()
    # The frequencies of the types follow Zipf's law.
    docs = [Doc(vocab, words=[f"w{rng.zipf(1.3) % 20_000}" for _ in range(n)]) for n in lengths]
    model.initialize(X=docs[:2])
    # Transitions that start at zero would leave nothing to iterate.
    for node in model.walk():
        if node.name == "pairwise":
            shape = node.get_param("V").shape
            node.set_param("V", model.ops.asarray(rng.normal(0, 0.2, shape).astype("float32")))
    potentials = model.predict(docs)
    gold = model.ops.asarray(rng.integers(0, n_tags, int(lengths.sum()), dtype="int32"))
    device = "cpu" if args.gpu < 0 else "cuda"
    check_agreement(PlainCRF(potentials, gold, device), CRF(), potentials, gold)
    synchronize = _synchronizer(args.gpu)
    trainers: dict[str, Callable] = {"PyTorch": partial(torch_loss, device)}
    trainers |= {head: inference.loss for head, inference in TRAINED.items()}
    decoders: dict[str, Callable] = {
        "PyTorch": lambda scores: PlainCRF(scores, gold, device).decode()
    }
    decoders |= {title: get_decoder(decoder, CRF()) for title, decoder in DECODED.items()}

    def train(loss: Callable) -> None:
        scores, backprop = model.begin_update(docs)
        backprop(loss(scores, gold)[1])
        synchronize()

    def decode(decoder: Callable) -> None:
        decoder(model.predict(docs))
        synchronize()

    rows = []
    for task, run, contenders in (
        ("training", train, trainers),
        ("decoding", decode, decoders),
    ):
        calls = {title: partial(run, contender) for title, contender in contenders.items()}
        seconds = interleave(calls, args.rounds)
        row: Row = {"task": task, "corpus": name, "layers": layers}
        row["tokens"] = int(lengths.sum())
        row["PyTorch ms"] = f"{seconds['PyTorch'] * 1e3:.1f}"
        for title in dict.fromkeys([*DECODED, *TRAINED]):
            times = seconds["PyTorch"] / seconds[title] if title in seconds else None
            row[title] = f"{times:.1f}" if times else ""
        by_layers = dict(zip(LAYERS, PAPER[task][name], strict=True))
        row["paper MF/BCRF 10"] = by_layers.get(layers, "")
        rows.append(row)
    return rows


def read_lengths(corpora: Path, experiment: str, name: str) -> NDArray[np.int64]:
    """Read the sentence lengths of a train part."""
    sentences = EXPERIMENTS[experiment].corpora[name].read(corpora, "train")
    by_character = experiment == "seg"
    return np.array([len("".join(s.words) if by_character else s.words) for s in sentences])


def make_model(layers: int, n_tags: int, scale: str) -> Any:
    """Return a model from documents to potentials."""
    size = SCALES[scale]
    tok2vec = SelfAttentiveEncoder(
        size.width,
        layers,
        heads=size.heads,
        feed_forward=size.feed_forward,
        attrs=["ORTH"],
        rows=[20_000],
    )
    head = crf_head(
        transitions="pairwise",
        transition_width=size.transition_width,
        nO=n_tags,
        nI=size.width,
    )
    return chain(tok2vec, head)


def torch_loss(device: str, potentials: Potentials, gold: Any) -> tuple[float, Potentials]:
    """Return the loss of a CRF in plain PyTorch and its gradient. Padding is included."""
    from thinc.api import torch2xp

    head = PlainCRF(potentials, gold, device)
    loss = head.loss()
    unary, transitions = map(torch2xp, head.flat_gradient())
    return loss, Potentials(unary, transitions, potentials.lengths)


def _synchronizer(gpu: int) -> Callable[[], object]:
    """Return a function that waits for the GPU, if there is one."""
    if gpu < 0:
        return lambda: None
    cupy = need("cupy", "cuda12x")

    return cupy.cuda.Device().synchronize


def draw(path: Path, rows: list[Row]) -> None:
    """Draw the speedups over PyTorch, with a panel for training and one for decoding."""
    figure = make_figure(11, 4)
    panels = figure.subplots(1, 2)
    titles = list(dict.fromkeys([*DECODED, *TRAINED]))
    for axes, task in zip(panels, ("training", "decoding"), strict=True):
        mine = [row for row in rows if row["task"] == task]
        shown = [title for title in titles if any(row[title] for row in mine)]
        for k, title in enumerate(shown):
            heights = [float(str(row[title])) for row in mine]
            places = np.arange(len(mine)) + (k - (len(shown) - 1) / 2) * 0.8 / len(shown)
            axes.bar(places, heights, 0.8 / len(shown), label=title)
        axes.set_xticks(range(len(mine)), [f"{row['corpus']}\n{row['layers']}" for row in mine])
        axes.set_xlabel("corpus, layers")
        axes.set_title(task)
        axes.axhline(1, color="black", linewidth=0.8)
        axes.legend(fontsize="small")
    panels[0].set_ylabel("times faster than PyTorch")
    save_figure(figure, path)


if __name__ == "__main__":
    main()
