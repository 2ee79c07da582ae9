"""Learning of a sparse chain by several processes or Ray actors, from a corpus in shards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, Literal

from spacy.language import Language

from bcrf.io.atomic import replacing_folder
from bcrf.linear.model_bytes import SavedChain, mix, pack, unpack
from spacy_bcrf.analysis.loading import load_pipeline
from spacy_bcrf.corpora.doc_files import find_files
from spacy_bcrf.corpora.identity import keep_identity

from .learner import Learned, Learner, Share, find_chain, raise_error
from .manifest import describe_inputs
from .processes import Child
from .ray_engine import ray_learners
from .worker import BulkError

Pass = Callable[[bytes, int], list[Learned]]
"""Let each learner make a pass from the bytes of a chain and a seed."""


def learn_in_rounds(
    nlp: Language,
    name: str,
    corpus: Path,
    output: Path,
    rounds: int,
    n_processes: int,
    seed: int = 0,
    after: Callable[[int, float], None] = lambda number, loss: None,
    engine: Literal["processes", "ray"] = "processes",
    address: str | None = None,
) -> Path:
    """Learn a sparse component by iterative parameter mixing (McDonald, Hall and Mann 2010).

    In each round, every process makes one pass over its files, in a random order that a buffer of
    BUFFER documents gives. The mean of their weights, by the numbers of their documents, starts
    the next round. With `averaged`, a process returns the mean over its pass.

    nlp: an initialized pipeline. name: a component whose model is a sparse chain. corpus: a folder
    of `.spacy` files, at least one a process. output: a folder that receives a pipeline a round,
    `round-001` and so on. after: receives the number of each round and its loss. engine: "ray"
    learns by `n_processes` Ray actors; all nodes need `corpus` and `output` at the same paths.
    address: of a Ray cluster, by default this machine. The result is the same for both engines.

    Called again after it was killed, it goes on with the last finished round. RETURNS the folder of
    the last round there is, which can be later than `rounds`. ValueError if the folder has other
    rounds, if there are too few files, or if a file cannot be read. BulkError if a process ends
    early, or a Ray actor several times.

    The weights of a round are stored as float16. AdaGrad starts each round with new rates.
    """
    chain = find_chain(nlp, name)
    files = find_files(corpus)
    if len(files) < n_processes:
        raise ValueError(
            f"{corpus}: has {len(files)} files for {n_processes} processes; `convert --shard` "
            "writes more"
        )
    _check_identity(nlp, name, files, output, n_processes, seed)
    names = (path.name.removeprefix("round-") for path in output.glob("round-*") if path.is_dir())
    found = [int(name) for name in names if name.isdecimal()]
    if not found:
        _save(nlp, output / "round-000")
    start = max(found, default=0)
    if start >= rounds:
        return output / f"round-{start:03d}"
    previous = output / f"round-{start:03d}"
    # What was saved, not what `nlp` has: a resumed run must do the same.
    mixed = unpack(find_chain(load_pipeline(previous), name).to_bytes())
    shares = [Share(previous, name, files[i::n_processes]) for i in range(n_processes)]
    team: AbstractContextManager[Pass] = (
        ray_learners(shares, address) if engine == "ray" else process_learners(shares)
    )
    with team as make_pass:
        for number in range(start + 1, rounds + 1):
            # l1, l2 and decay are for all sequences together.
            sent = mixed._replace(n_sequences=mixed.n_sequences / n_processes)
            learned = make_pass(pack(sent), seed * 1_000_003 + number)
            mixed = _mix(learned, mixed.n_sequences)
            chain.from_bytes(pack(mixed))
            _save(nlp, output / f"round-{number:03d}")
            after(number, sum(one.loss for one in learned))
    return output / f"round-{rounds:03d}"


def _mix(learned: Sequence[Learned], n_sequences: float) -> SavedChain:
    n_docs = sum(one.n_docs for one in learned)
    mixed = mix([unpack(one.chain) for one in learned], [one.n_docs / n_docs for one in learned])
    return mixed._replace(n_sequences=n_sequences)


@contextmanager
def process_learners(shares: Sequence[Share]) -> Iterator[Pass]:
    """Start a process of one thread for each share. They end when this one does.

    ValueError for an error of a learner, BulkError if a process ends early.
    """
    team: dict[Any, Child] = {}

    def make_pass(chain: bytes, seed: int) -> list[Learned]:
        for child in team.values():
            child.send((chain, seed))
        found: dict[Any, Learned] = {}
        # The first process that dies ends the pass, while others still learn.
        while left := [connection for connection in team if connection not in found]:
            for connection in wait(left):
                try:
                    found[connection] = raise_error(team[connection].receive())
                except (EOFError, OSError):
                    number = [*team].index(connection) + 1
                    raise BulkError(
                        f"{shares[0].pipeline}: learner {number} of {len(team)} of a later round "
                        f"died ({team[connection].stop()}); the same call goes on from the last "
                        "finished round"
                    ) from None
        return [found[connection] for connection in team]

    try:
        for share in shares:
            child = Child(_serve, share)
            team[child.connection] = child
        yield make_pass
    finally:
        for child in team.values():
            child.stop(kill=True)


def _serve(share: Share, connection: Any) -> None:
    """Make passes until the parent ends."""
    learner = None
    while True:
        chain, seed = connection.recv()
        try:
            learner = learner or Learner(share)
            connection.send(learner.learn(chain, seed))
        except ValueError as error:
            connection.send(ValueError(str(error)))


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
