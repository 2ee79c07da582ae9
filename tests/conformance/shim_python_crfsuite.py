"""Our reading of features and of model files in the place of python-crfsuite's tagger.

The trainer stays theirs, so we read the models that it writes.
"""

import os
import tempfile
from pathlib import Path

import pycrfsuite

from bcrf.linear.crfsuite_attributes import Attributes
from bcrf.sklearn import CRF


class ItemSequence:
    """Features as our `Attributes` read them."""

    def __init__(self, sequence):
        attributes = Attributes()
        batch = attributes.read([sequence], add=True)
        names = attributes.names
        self._items = []
        for start, end in zip(batch.starts[:-1], batch.starts[1:], strict=True):
            values = [1.0] * (end - start) if batch.values is None else batch.values[start:end]
            named = zip(batch.rows[start:end].tolist(), values, strict=True)
            self._items.append({names[row]: float(str(value)) for row, value in named if row >= 0})

    def items(self):
        return self._items

    def __len__(self):
        return len(self._items)


class Tagger:
    """A `CRF` of a model file."""

    _crf = None

    def open(self, name):
        Path(name).open("rb").close()
        self._crf = CRF(model_filename=str(name))
        self._crf.labels()
        return self

    def open_inmemory(self, data):
        handle, name = tempfile.mkstemp()
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            return self.open(name)
        finally:
            Path(name).unlink()

    def labels(self):
        if self._crf is None:
            raise ValueError("no model is open")
        return self._crf.labels()

    def tag(self, sequence):
        items = sequence.items() if isinstance(sequence, ItemSequence) else sequence
        return self._crf.predict_single(items)

    def close(self):
        self._crf = None

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()


pycrfsuite.ItemSequence, pycrfsuite.Tagger = ItemSequence, Tagger
