"""What a run reports: a progress bar and a summary, or JSON lines."""

import json
import time

from tqdm import tqdm

from .shards import Counts


class Progress:
    """A bar of bytes and a summary, or JSON lines, one a second. A position is in bytes, about."""

    def __init__(self, output: str, as_json: bool) -> None:
        self.output, self.as_json = output, as_json
        self.is_old = False  # whether an earlier call finished the run
        self.size = self.skipped = self.position = self.earlier_words = 0
        self.started, self.last = time.monotonic(), float("-inf")
        hidden = True if as_json else None
        self.bar = tqdm(unit="B", unit_scale=True, desc="annotating", disable=hidden)

    def start(self, size: int) -> None:
        self.size = self.bar.total = size

    def skip(self, counts: Counts, position: int) -> None:
        """Leave out the time, words and bytes of earlier runs."""
        self.started, self.earlier_words = time.monotonic(), counts.words
        self.bar.initial = self.skipped = self.position = position
        self.bar.update(position - self.bar.n)

    def update(self, counts: Counts, position: int) -> None:
        self.position = max(self.position, position)
        if self.as_json and time.monotonic() - self.last >= 1:
            self.last = time.monotonic()
            self._write("progress", counts)
        self.bar.set_postfix_str(
            f"{counts.read:,} docs, {self._speed(counts):,.0f} words/s, {counts.failed:,} errors",
            refresh=False,
        )
        self.bar.update(self.position - self.bar.n)

    def finish(self, counts: Counts) -> None:
        self.bar.close()
        self.position = self.size
        if self.as_json:
            return self._write("finished", counts)
        failed = f"; {self.output}/errors.jsonl lists the failed ones" if counts.failed else ""
        if counts.unread:
            failed = f", the rest of {counts.unread:,} files unread{failed}"
        done = "finished already: " if self.is_old else ""
        print(
            f"{done}{counts.read:,} documents read, {counts.written:,} written to {self.output}, "
            f"{counts.failed:,} failed{failed}"
        )

    def _seconds(self) -> float:
        return max(1e-9, time.monotonic() - self.started)

    def _speed(self, counts: Counts) -> float:
        return (counts.words - self.earlier_words) / self._seconds()

    def _write(self, event: str, counts: Counts) -> None:
        done, rest = self.position - self.skipped, self.size - self.position
        left = self._seconds() * rest / done if done else None if rest else 0
        fields = {
            "event": event,
            **counts._asdict(),
            "words_per_second": round(self._speed(counts)),
            "seconds": round(self._seconds(), 1),
            "seconds_left": None if left is None else round(left),
        }
        print(json.dumps(fields), flush=True)
