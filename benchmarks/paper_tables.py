"""Training and decoding time, network included, as in the paper's Tables 2 and 3.

    python -m benchmarks.paper_tables --corpora DIR

Corro et al. 2025 compare with the forward algorithm and Viterbi in PyTorch. The encoder and the
scores of tags and of transitions (T x T for each edge) are the same in all contenders, forward and
backward; only what is done with the scores differs. Times are of one batch: for training all but
the optimizer's step, for decoding from documents to tags.
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

from benchmarks.common import add_options, describe_machine, interleave, print_table
from spacy_bcrf import kernels
from spacy_bcrf.chain import BCRF, CRF, Inference, MeanField, Potentials
from spacy_bcrf.corpora.formats.conllu import read_conllu
from spacy_bcrf.io.atomic import replacing
from spacy_bcrf.io.extras import require
from spacy_bcrf.io.text import find_file, read_lines
from spacy_bcrf.layers.crf import CRF as crf_head
from spacy_bcrf.layers.decoding import get_decoder
from spacy_bcrf.layers.self_attentive import SelfAttentiveEncoder

# File of the lengths, tokens or characters of a sentence, and tags.
TASKS = {
    "en": ("ud-english-ewt/en_ewt-ud-train.conllu", False, 17),
    "zh": ("ud-chinese-gsd/v1.4/zh-ud-train.conllu", True, 64),
    "ja": ("ud-japanese-gsd/r2.9/ja_gsd-ud-train.conllu", True, 64),
}
TRAINED: dict[str, Inference] = {"CRF": CRF(), "MF 10": MeanField(10), "BCRF 10": BCRF(10)}
DECODED = {"Viterbi": "viterbi", "MF 5": "mf(5)", "MF 10": "mf(10)", "BCRF 5": "bcrf(5)"}
DECODED["BCRF 10"] = "bcrf(10)"
# Times faster, MF / BCRF with 10 iterations, by layers: the paper's Tables 2 and 3.
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
# Width, heads and width of feed-forward layers of the encoder, width of the transitions' network.
SCALES = {"small": (128, 4, 256, 32), "full": (768, 8, 2048, 128)}
Row = dict[str, object]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser)
    parser.add_argument("--gpu", type=int, default=-1, help="its number; -1 is the CPU")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, default=16, help="sentences")
    parser.add_argument("--scale", choices=SCALES, default="full", help="full: the paper's")
    parser.add_argument("--layers", type=int, nargs="+", default=LAYERS)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--plot", type=Path, metavar="FILE.png")
    args = parser.parse_args()
    torch = require("torch", "torch")
    if args.gpu >= 0:
        require_gpu(args.gpu)
    torch.set_num_threads(1)
    kernels.set_threads(1)
    if args.corpora is None:
        parser.error("needs --corpora, for the lengths of sentences")
    rows: list[Row] = []
    for name in args.tasks:
        for layers in args.layers:
            rows += measure(name, layers, args)
    notes = (
        f"{describe_machine(['numpy', 'thinc', 'torch'])}; {'CPU' if args.gpu < 0 else 'GPU'}\n"
        f"{args.batch} sentences a batch, network of width {SCALES[args.scale][0]}, one thread; "
        "ms a batch of PyTorch, and how many times faster the others are; fastest of "
        f"{args.rounds} interleaved rounds"
    )
    print_table("Tables 2 and 3", rows, notes, args.csv)
    if args.plot:
        draw(args.plot, rows)


def measure(name: str, layers: int, args: argparse.Namespace) -> list[Row]:
    file, by_character, n_tags = TASKS[name]
    rng = np.random.default_rng(0)
    lengths = rng.choice(read_lengths(args.corpora / file, by_character), args.batch)
    model = make_model(layers, n_tags, args.scale)
    vocab = Vocab()
    # Types as frequent as words are, the same for all contenders.
    docs = [Doc(vocab, words=[f"w{rng.zipf(1.3) % 20_000}" for _ in range(n)]) for n in lengths]
    model.initialize(X=docs[:2])
    # Not zero as at the start of training: with these, iterations have something to do.
    for node in model.walk():
        if node.name == "pairwise":
            shape = node.get_param("V").shape
            node.set_param("V", model.ops.asarray(rng.normal(0, 0.2, shape).astype("float32")))
    potentials = model.predict(docs)
    gold = model.ops.asarray(rng.integers(0, n_tags, int(lengths.sum()), dtype="int32"))
    check(potentials, gold)
    synchronize = _synchronizer(args.gpu)
    trainers: dict[str, Callable] = {"PyTorch": TorchChain.loss}
    trainers |= {head: inference.loss for head, inference in TRAINED.items()}
    decoders: dict[str, Callable] = {"PyTorch": TorchChain.decode}
    decoders |= {title: get_decoder(decoder, CRF()) for title, decoder in DECODED.items()}

    def train(loss: Callable) -> None:
        found, backprop = model.begin_update(docs)
        backprop(loss(found, gold)[1])
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
        row: Row = {"task": task, "like": name, "layers": layers}
        row["tokens"] = int(lengths.sum())
        row["PyTorch ms"] = f"{seconds['PyTorch'] * 1e3:.1f}"
        for title in dict.fromkeys([*DECODED, *TRAINED]):
            times = seconds["PyTorch"] / seconds[title] if title in seconds else None
            row[title] = f"{times:.1f}" if times else ""
        by_layers = dict(zip(LAYERS, PAPER[task][name], strict=True))
        row["paper MF/BCRF 10"] = by_layers.get(layers, "")
        rows.append(row)
    return rows


def read_lengths(path: Path, by_character: bool) -> NDArray[np.int64]:
    sentences = read_conllu(read_lines(find_file(path)))
    return np.array(
        [
            sum(map(len, sentence.words)) if by_character else len(sentence.words)
            for sentence in sentences
        ]
    )


def make_model(layers: int, n_tags: int, scale: str) -> Any:
    """Documents to potentials."""
    width, heads, feed_forward, transition_width = SCALES[scale]
    tok2vec = SelfAttentiveEncoder(
        width, layers, heads=heads, feed_forward=feed_forward, attrs=["ORTH"], rows=[20_000]
    )
    head = crf_head(transitions="pairwise", transition_width=transition_width, nO=n_tags, nI=width)
    return chain(tok2vec, head)


class TorchChain:
    """A CRF in plain PyTorch, over padded potentials: what one writes without a library."""

    def __init__(self, potentials: Potentials, requires_grad: bool) -> None:
        import torch
        from thinc.api import xp2torch

        lengths = potentials.lengths
        xp = type(lengths).__module__.split(".")[0]
        self.lengths = torch.tensor(lengths.get() if xp == "cupy" else lengths).long()
        unary, edges = xp2torch(potentials.unary), xp2torch(potentials.transitions)
        self.filled = torch.arange(int(self.lengths.max())) < self.lengths[:, None]
        self.filled = self.filled.to(unary.device)
        n_tags = unary.shape[1]
        self.unary = unary.new_zeros((*self.filled.shape, n_tags))
        self.unary[self.filled] = unary
        self.edges = unary.new_zeros((*self.filled.shape, n_tags, n_tags))
        self.edges[self.filled] = edges
        self.unary.requires_grad_(requires_grad)
        self.edges.requires_grad_(requires_grad)

    @staticmethod
    def loss(potentials: Potentials, gold: Any) -> tuple[Any, Potentials]:
        """Forward algorithm, and its gradient by automatic differentiation."""
        import torch
        from thinc.api import torch2xp, xp2torch

        self = TorchChain(potentials, requires_grad=True)
        alpha = self.unary[:, 0]
        for i in range(1, self.unary.shape[1]):
            following = torch.logsumexp(alpha[:, :, None] + self.edges[:, i - 1], dim=1)
            following = following + self.unary[:, i]
            alpha = torch.where(self.filled[:, i, None], following, alpha)
        tags = torch.zeros_like(self.filled, dtype=torch.long)
        tags[self.filled] = xp2torch(gold).long()
        score = (self.unary.gather(2, tags[:, :, None])[:, :, 0] * self.filled).sum(dim=1)
        rows = tags[:, :-1, None, None].expand(-1, -1, 1, self.edges.shape[-1])
        steps = self.edges[:, :-1].gather(2, rows)[:, :, 0].gather(2, tags[:, 1:, None])[:, :, 0]
        score = score + (steps * self.filled[:, 1:]).sum(dim=1)
        losses = torch.logsumexp(alpha, dim=1) - score
        losses.sum().backward()
        unary, edges = (padded.grad for padded in (self.unary, self.edges))
        assert unary is not None and edges is not None
        gradient = torch2xp(unary[self.filled]), torch2xp(edges[self.filled])
        return torch2xp(losses.detach()), Potentials(*gradient, potentials.lengths)

    @staticmethod
    def decode(potentials: Potentials) -> Any:
        """Viterbi; tags (N,)."""
        import torch
        from thinc.api import torch2xp

        with torch.no_grad():
            self = TorchChain(potentials, requires_grad=False)
            best, pointers = self.unary[:, 0], []
            for i in range(1, self.unary.shape[1]):
                scores, pointer = (best[:, :, None] + self.edges[:, i - 1]).max(dim=1)
                inside = self.filled[:, i, None]
                best = torch.where(inside, scores + self.unary[:, i], best)
                here = torch.arange(best.shape[1], device=best.device)
                pointers.append(torch.where(inside, pointer, here))
            tags = [best.argmax(dim=1)]
            for pointer in reversed(pointers):
                tags.append(pointer.gather(1, tags[-1][:, None])[:, 0])
            return torch2xp(torch.stack(tags[::-1], dim=1)[self.filled])


def check(potentials: Potentials, gold: Any) -> None:
    """Nothing is worth timing that does not compute the same."""
    theirs, their_gradient = TorchChain.loss(potentials, gold)
    ours, our_gradient = CRF().loss(potentials, gold)
    np.testing.assert_allclose(_host(ours), _host(theirs), rtol=1e-3, atol=1e-2)
    np.testing.assert_allclose(_host(our_gradient.unary), _host(their_gradient.unary), atol=1e-3)
    agreement = (_host(CRF().decode(potentials)) == _host(TorchChain.decode(potentials))).mean()
    assert agreement > 0.999, f"Viterbi agrees with PyTorch's in only {agreement:.1%} of tags"


def _host(array: Any) -> NDArray:
    return array.get() if hasattr(array, "get") else np.asarray(array)


def _synchronizer(gpu: int) -> Callable[[], object]:
    if gpu < 0:
        return lambda: None
    import cupy

    return cupy.cuda.Device().synchronize


def draw(path: Path, rows: list[Row]) -> None:
    """Times faster than PyTorch, a panel for training and one for decoding."""
    figure = require("matplotlib.figure", "plot").Figure(figsize=(11, 4), layout="constrained")
    panels = figure.subplots(1, 2)
    titles = list(dict.fromkeys([*DECODED, *TRAINED]))
    for axes, task in zip(panels, ("training", "decoding"), strict=True):
        mine = [row for row in rows if row["task"] == task]
        shown = [title for title in titles if any(row[title] for row in mine)]
        for k, title in enumerate(shown):
            heights = [float(str(row[title])) for row in mine]
            places = np.arange(len(mine)) + (k - (len(shown) - 1) / 2) * 0.8 / len(shown)
            axes.bar(places, heights, 0.8 / len(shown), label=title)
        axes.set_xticks(range(len(mine)), [f"{row['like']}\n{row['layers']}" for row in mine])
        axes.set_xlabel("sentences like, layers")
        axes.set_title(task)
        axes.axhline(1, color="black", linewidth=0.8)
        axes.legend(fontsize="small")
    panels[0].set_ylabel("times faster than PyTorch")
    with replacing(path) as part:
        figure.savefig(part, format="png", dpi=120)


if __name__ == "__main__":
    main()
