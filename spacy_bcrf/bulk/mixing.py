"""Learning of a sparse chain in several processes, from a corpus in shards."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import spacy
from spacy.language import Language
from spacy.training import Example
from spacy.util import minibatch

from spacy_bcrf.io.atomic import replacing_folder
from spacy_bcrf.io.identity import keep_identity
from spacy_bcrf.io.shards import find_files, read_shuffled
from spacy_bcrf.layers.linear_chain import sparse_chain
from spacy_bcrf.sparse.model import SparseChain
from spacy_bcrf.sparse.model_bytes import mix, pack, unpack

from .engines import one_thread
from .manifest import describe_inputs
from .worker import BulkError

BUFFER = 5000
"""Documents in the buffer that shuffles a share of the corpus."""
BATCH = 128


class Share(NamedTuple):
    """The part of a round for one process.

    pipeline: folder to start from. name: component. files: of the corpus. n_shares: of the round.
    """

    pipeline: Path
    name: str
    files: list[Path]
    seed: int
    n_shares: int


class Learned(NamedTuple):
    """What a process returns: the chain's bytes, the number of documents and the loss."""

    chain: bytes
    n_docs: int
    loss: float


def learn_in_rounds(
    nlp: Language,
    name: str,
    corpus: Path,
    output: Path,
    rounds: int,
    n_processes: int,
    seed: int = 0,
    after: Callable[[int, float], None] = lambda number, loss: None,
) -> Path:
    """Learn a sparse component by iterative parameter mixing (McDonald, Hall and Mann 2010).

    In each round, every process makes one pass over its files, in a random order that a buffer of
    BUFFER documents gives. The mean of their weights, by the numbers of their documents, starts
    the next round. With `averaged`, a process returns the mean over its pass.

    nlp: an initialized pipeline. name: a component whose model is a sparse chain. corpus: a folder
    of `.spacy` files, at least one a process. output: a folder that receives a pipeline a round,
    `round-001` and so on. after: receives the number of each round and its loss.

    Called again after it was killed, it goes on with the last finished round. RETURNS the folder of
    the last round there is, which can be later than `rounds`. ValueError if the folder has other
    rounds, or if there are too few files.
    BulkError if a process ends early.

    The weights of a round are stored as float16. AdaGrad starts each round with new rates.
    """
    _find_chain(nlp, name)
    files = find_files(corpus)
    if len(files) < n_processes:
        raise ValueError(
            f"{corpus}: has {len(files)} files for {n_processes} processes; `convert --shard` "
            "writes more"
        )
    _check_identity(nlp, name, files, output, n_processes, seed)
    folders = [path for path in output.glob("round-*") if path.is_dir()]
    if not folders:
        _save(nlp, output / "round-000")
    start = max((int(path.name.removeprefix("round-")) for path in folders), default=0)
    for number in range(start + 1, rounds + 1):
        previous = output / f"round-{number - 1:03d}"
        shares = [
            Share(previous, name, files[i::n_processes], seed * 1_000_003 + number, n_processes)
            for i in range(n_processes)
        ]
        loss = _mix_into(nlp, name, _learn_shares(shares))
        _save(nlp, output / f"round-{number:03d}")
        after(number, loss)
    return output / f"round-{max(start, rounds):03d}"


def _learn_shares(shares: Sequence[Share]) -> list[Learned]:
    """Learn each share in a process of its own, which ends when this one does."""
    context: Any = get_context("forkserver" if sys.platform == "linux" else "spawn")
    context.set_forkserver_preload([__name__])
    started = []
    with one_thread():
        for share in shares:
            receiver, sender = context.Pipe(duplex=False)
            process = context.Process(target=_send_learned, args=(share, sender), daemon=True)
            process.start()
            sender.close()
            started.append((process, receiver))
    learned = []
    try:
        for process, receiver in started:
            learned.append(receiver.recv())
            process.join()
    except EOFError:
        process.join()
        raise BulkError(
            f"{shares[0].pipeline}: a process of the next round ended (exit code "
            f"{process.exitcode}); the finished rounds stay"
        ) from None
    finally:
        for process, receiver in started:
            process.kill()
            receiver.close()
    return learned


def _send_learned(share: Share, sender: Any) -> None:
    with suppress(BrokenPipeError):
        sender.send(learn_share(share))


def learn_share(share: Share) -> Learned:
    """Make one pass over a share of the corpus."""
    nlp = spacy.load(share.pipeline)
    chain = _find_chain(nlp, share.name)
    saved = unpack(chain.to_bytes())
    # l1, l2 and decay are for all sequences together.
    chain.from_bytes(pack(saved._replace(n_sequences=saved.n_sequences / share.n_shares)))
    before = nlp.pipe_names[: nlp.pipe_names.index(share.name)]
    others = [pipe for pipe in nlp.pipe_names if pipe != share.name]
    docs = read_shuffled(share.files, nlp.vocab, random.Random(share.seed), BUFFER)
    losses: dict[str, float] = {}
    n_docs = 0
    for batch in minibatch(docs, BATCH):
        examples = [Example(_copy_words(nlp, doc), doc) for doc in batch]
        nlp.update(examples, exclude=others, annotates=before, losses=losses)
        n_docs += len(batch)
    return Learned(chain.to_bytes(), n_docs, losses.get(share.name, 0.0))


def _copy_words(nlp: Language, doc: Any) -> Any:
    words, spaces = [token.text for token in doc], [bool(token.whitespace_) for token in doc]
    return spacy.tokens.Doc(nlp.vocab, words=words, spaces=spaces)


def _mix_into(nlp: Language, name: str, learned: Sequence[Learned]) -> float:
    """Set the mean of the learned chains. RETURNS the sum of the losses."""
    n_docs = sum(one.n_docs for one in learned)
    chain = _find_chain(nlp, name)
    n_sequences = chain.learner.n_sequences
    chains = [unpack(one.chain) for one in learned]
    mixed = mix(chains, [one.n_docs / n_docs for one in learned])
    chain.from_bytes(pack(mixed._replace(n_sequences=n_sequences)))
    return sum(one.loss for one in learned)


def _find_chain(nlp: Language, name: str) -> SparseChain:
    pipe: Any = nlp.get_pipe(name)
    chain = sparse_chain(pipe.model)
    if chain is None or pipe.model.name != "linear_chain":
        raise ValueError(
            f"{name} has no sparse chain alone; expected a component with the model "
            "spacy-bcrf.LinearChain.v1"
        )
    return chain


def _save(nlp: Language, folder: Path) -> None:
    with replacing_folder(folder) as part:
        nlp.to_disk(part)


def _check_identity(
    nlp: Language, name: str, files: Sequence[Path], output: Path, n_processes: int, seed: int
) -> None:
    """Write what decides the result, or raise ValueError if the folder has something else."""
    identity = {
        "component": name,
        "config": nlp.config,
        "processes": n_processes,
        "seed": seed,
        "corpus": describe_inputs(files),
    }
    path = output / "rounds.json"
    if not path.exists() and output.exists() and any(output.iterdir()):
        raise ValueError(f"{output}: expected a new or empty folder, or one of these rounds")
    keep_identity(path, identity)
