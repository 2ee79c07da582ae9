"""CRFsuite's model files, as python-crfsuite and sklearn-crfsuite write them."""

from pathlib import Path
from struct import error as StructError
from struct import unpack_from
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MAGIC = b"lCRF"
"""The first bytes of a model file."""
_MAX_WEIGHTS = 1 << 31
_FEATURE = np.dtype([("kind", "<u4"), ("from", "<u4"), ("to", "<u4"), ("weight", "<f8")])
_STATE, _TRANSITION = 0, 1


class CRFsuiteModel(NamedTuple):
    """A first-order chain with T labels and A attributes.

    transitions: float64 (T, T), `[from, to]`. weights: float64 (A, T).

    >>> import numpy as np
    >>> from bcrf.linear import CRFsuiteModel
    >>> model = CRFsuiteModel(["O", "PER"], ["w=Ann"], np.zeros((2, 2)), np.array([[0.0, 1.5]]))
    >>> model.labels[model.weights[0].argmax()]
    'PER'
    """

    labels: list[str]
    attributes: list[str]
    transitions: NDArray[np.float64]
    weights: NDArray[np.float64]


def read_crfsuite_model(path: Path) -> CRFsuiteModel:
    """Read a model file. Raises ValueError naming the file and what is wrong with it.

    Source: crf1d_model.c and cqdb.c of CRFsuite 0.12. Two features with the same attribute and
    label add up.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from bcrf.linear import read_crfsuite_model
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "x.crfsuite"
    ...     _ = path.write_bytes(b"text")
    ...     try:
    ...         read_crfsuite_model(path)
    ...     except ValueError as error:
    ...         print(str(error).removeprefix(folder))
    /x.crfsuite: not a CRFsuite model: it starts with b'text', not b'lCRF'
    """
    data = path.read_bytes()
    try:
        return _parse(data)
    except (StructError, IndexError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: damaged CRFsuite model: {error}") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _parse(data: bytes) -> CRFsuiteModel:
    if data[:4] != MAGIC:
        raise ValueError(f"not a CRFsuite model: it starts with {data[:4]!r}, not {MAGIC!r}")
    size, kind = unpack_from("<I4s", data, 4)
    if kind != b"FOMC" or size != len(data):
        raise ValueError(
            f"damaged CRFsuite model: kind {kind!r} and {size} bytes by its header, expected "
            f"b'FOMC' and {len(data)}"
        )
    n_labels, n_attributes, at_features, at_labels, at_attributes = unpack_from("<5I", data, 20)
    if n_labels * (n_labels + n_attributes) > _MAX_WEIGHTS:
        raise ValueError(
            f"{n_labels} labels and {n_attributes} attributes have more than {_MAX_WEIGHTS} weights"
        )
    labels = _read_names(data, at_labels, n_labels)
    attributes = _read_names(data, at_attributes, n_attributes)
    _, _, n = unpack_from("<4s2I", data, at_features)
    features = np.frombuffer(data, _FEATURE, n, at_features + 12)
    transitions, weights = np.zeros((n_labels, n_labels)), np.zeros((n_attributes, n_labels))
    for code, table in (_STATE, weights), (_TRANSITION, transitions):
        chosen = features[features["kind"] == code]
        np.add.at(table, (chosen["from"], chosen["to"]), chosen["weight"])
    if not (np.isfinite(transitions).all() and np.isfinite(weights).all()):
        raise ValueError("damaged CRFsuite model: a weight is not finite")
    return CRFsuiteModel(labels, attributes, transitions, weights)


def _read_names(data: bytes, start: int, n: int) -> list[str]:
    """Return the strings of a constant database (CQDB) by id."""
    magic, _, _, _, size, back = unpack_from("<4s5I", data, start)
    if magic != b"CQDB" or size < n:
        raise IndexError(f"expected a table of {n} names at byte {start}")
    names = []
    for offset in np.frombuffer(data, "<u4", n, start + back).tolist():
        _, length = unpack_from("<2I", data, start + offset)
        at = start + offset + 8
        if not 0 < length <= len(data) - at:
            raise IndexError(f"the name at byte {at} is too long")
        names.append(data[at : at + length - 1].decode("utf8"))
    return names
