"""Token classifiers of Hugging Face, as PyTorch or ONNX models in local folders."""

import json
import operator
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc

from bcrf.io.extras import require
from bcrf.io.hashes import hash_files
from bcrf.lazy import lazy

from .foreign_tagger import SourceError
from .subwords import Pooling, SubwordWindow, plan_windows, pool_subwords

Run = Callable[[NDArray[np.int64]], NDArray[np.float32]]
WEIGHTS = "*.safetensors"
"""Files of Hugging Face Transformers. Its older *.bin are pickles, which can run code."""
PICKLES = "pytorch_model*.bin"
BATCH_SIZE = 16
"""Windows of the same number of sub-words that a model reads at once."""
# Models whose positions start after the padding's.
_PADDED = {"roberta", "xlm-roberta", "camembert", "longformer"}


@contextmanager
def reading(file: Path, expected: str) -> Iterator[None]:
    """Turn an exception of a library that reads a file into a ValueError that names the file."""
    try:
        yield
    except ImportError:
        raise
    except Exception as error:  # libraries in Rust and C++ raise any
        raise ValueError(
            f"{file}: cannot be read ({type(error).__name__}: {error}); expected {expected}"
        ) from error


def read_config(folder: Path) -> dict[str, Any]:
    """Return the content of `config.json`. ValueError if it is missing, or none of a model."""
    file = folder / "config.json"
    if not file.is_file():
        raise ValueError(f"{file}: no such file; expected the folder of a token classifier")
    try:
        config = json.loads(file.read_text(encoding="utf8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file}: is damaged ({error}); expected the JSON of a model") from None
    if not isinstance(config, dict) or not isinstance(config.get("id2label", {}), dict):
        raise ValueError(f"{file}: expected a JSON object, with labels by number in id2label")
    return config


def read_labels(folder: Path) -> list[str]:
    """Return the labels of `config.json` by number. ValueError for fewer than two, or odd ones."""
    file, by_id = folder / "config.json", read_config(folder).get("id2label", {})
    if len(by_id) < 2:
        raise ValueError(f"{file}: expected two labels or more in id2label")
    for i in range(len(by_id)):
        label = by_id.get(str(i))
        if not isinstance(label, str) or not label:
            raise ValueError(
                f"{file}: id2label has {label!r} for the label {i} of {len(by_id)}; expected a "
                "name for each number from 0 on"
            )
    return [by_id[str(i)] for i in range(len(by_id))]


def find_named_files(model: Path) -> list[Path]:
    """Return the files in the folder of an ONNX model whose names the model contains.

    These include all external data, which a model names by their path in its folder.
    """
    with model.open("rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return []  # nothing to map
        with mmap(file.fileno(), 0, access=ACCESS_READ) as content:
            around = sorted({*model.parent.rglob("*")} - {model})
            files = (each for each in around if each.is_file())
            named = (each.relative_to(model.parent).as_posix().encode() for each in files)
            return [model.parent / os.fsdecode(name) for name in named if content.find(name) >= 0]


class TokenClassifier:
    """A model's labels, sub-words, windows and batches.

    path: folder with `config.json` (its `id2label`) and `tokenizer.json`.
    find_weights: returns the other files that determine the logits.
    open_model: returns the function from sub-words (B, S), special ones included, to logits
        (B, S, L).
    extra: that the model needs.
    pooling: from sub-words to tokens, see `pool_subwords`.
    window: most sub-words at once, fewer if the model reads fewer. A longer text is cut into
        windows that overlap by `overlap` sub-words.
    """

    def __init__(
        self,
        path: str,
        find_weights: Callable[[], Iterable[Path]],
        open_model: Callable[[], Run],
        extra: str,
        *,
        pooling: Pooling = "first",
        window: int = 512,
        overlap: int = 128,
    ) -> None:
        if pooling not in ("first", "mean", "max"):
            raise ValueError(f"pooling must be first, mean or max, got {pooling!r}")
        if not 0 <= overlap <= window // 2:
            raise ValueError(f"overlap must be from 0 to window / 2, got {overlap} and {window}")
        self.path = Path(path)
        self.pooling, self.window, self.overlap = pooling, window, overlap
        self._find_weights, self._open_model, self._extra = find_weights, open_model, extra

    @lazy
    def labels(self) -> list[str]:
        return read_labels(self.path)

    @lazy
    def identity(self) -> str:
        files = (self.path / "config.json", self.path / "tokenizer.json", *self._find_weights())
        return f"{hash_files(*files)} {[self.pooling, self.window, self.overlap]}"

    @lazy
    def _tokenizer(self) -> Any:
        file = self.path / "tokenizer.json"
        if not file.is_file():
            raise ValueError(
                f"{file}: no such file; AutoTokenizer.from_pretrained({str(self.path)!r})"
                ".save_pretrained writes it"
            )
        library = require("tokenizers", self._extra)
        with reading(file, "the tokenizer that `save_pretrained` writes"):
            tokenizer = library.Tokenizer.from_file(str(file))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return tokenizer

    @lazy
    def _run(self) -> Run:
        return self._open_model()

    def load(self) -> object:
        return self._run, self._budget

    @lazy
    def _specials(self) -> tuple[list[int], list[int]]:
        """The ids of special sub-words before and after a text."""
        found = self._tokenizer.encode("a")
        mask = found.special_tokens_mask
        return found.ids[: mask.index(0)], found.ids[len(mask) - mask[::-1].index(0) :]

    @lazy
    def _budget(self) -> int:
        """Most sub-words of a window, without special ones."""
        config = read_config(self.path)
        most, padding = config.get("max_position_embeddings", self.window), 0
        if config.get("model_type") in _PADDED:
            padding = config.get("pad_token_id", 1) + 1
        with reading(self.path / "config.json", "whole numbers in max_position_embeddings"):
            most = operator.index(most) - operator.index(padding)
        return max(min(most, self.window) - sum(map(len, self._specials)), 1)

    def __call__(self, docs: Sequence[Doc]) -> list[NDArray[np.float32]]:
        found = self._tokenizer.encode_batch([doc.text for doc in docs], add_special_tokens=False)
        values = [np.zeros((len(one.ids), len(self.labels)), dtype="float32") for one in found]
        overlap = min(self.overlap, self._budget // 2)
        # Sequences of one length need no padding, which changes the scores of quantized models.
        by_length: dict[int, list[tuple[int, SubwordWindow]]] = defaultdict(list)
        for i, one in enumerate(found):
            for window in plan_windows(len(one.ids), self._budget, overlap) if one.ids else ():
                by_length[window.end - window.start].append((i, window))
        before, after = self._specials
        for windows in by_length.values():
            for start in range(0, len(windows), BATCH_SIZE):
                some = windows[start : start + BATCH_SIZE]
                rows = [[*before, *found[i].ids[w.start : w.end], *after] for i, w in some]
                logits = np.asarray(self._run(np.array(rows, dtype="int64")), dtype="float32")
                self._check_shape(logits)
                if not np.isfinite(logits).all():
                    raise ValueError("the logits are NaN or infinite")
                for (i, w), of_window in zip(some, logits, strict=True):
                    at = np.arange(w.first_kept, w.last_kept)
                    kept = of_window[at - w.start + len(before)]
                    values[i][at] = kept - np.logaddexp.reduce(kept, axis=1, keepdims=True)
        pairs = zip(docs, found, values, strict=True)
        return [pool_subwords(doc, one.offsets, of_doc, self.pooling) for doc, one, of_doc in pairs]

    def _check_shape(self, logits: NDArray[np.float32]) -> None:
        if logits.ndim != 3 or logits.shape[2] != len(self.labels):
            raise SourceError(
                f"{self.path}: the model has logits of the shape {logits.shape}, but config.json "
                f"has {len(self.labels)} labels; expected (texts, sub-words, labels)"
            )


def HuggingFaceScores(path: str, *, device: str = "cpu", **options: Any) -> TokenClassifier:
    """`spacy-bcrf.HuggingFaceScores.v1`: a token classifier that `save_pretrained` wrote.

    device: of PyTorch, such as "cuda". Other options: see `TokenClassifier`. Needs the extra
    transformers. Reads no network, no pickle, and runs no code of the folder.
    """

    def find_weights() -> list[Path]:
        found = sorted(Path(path).glob(f"{WEIGHTS}*"))  # and the index of several files
        if not found and Path(path).is_dir():
            pickles = ", ".join(file.name for file in sorted(Path(path).glob(PICKLES)))
            raise ValueError(
                f"{path}: has no {WEIGHTS}{f', but {pickles}' if pickles else ''}; expected the "
                "weights that `save_pretrained(folder, safe_serialization=True)` writes"
            )
        return found

    def open_model() -> Run:
        torch, classes = require("torch", "torch"), require("transformers", "transformers")
        find_weights()
        model, info = _load_pretrained(classes.AutoModelForTokenClassification, Path(path))
        if missing := sorted(info["missing_keys"]):
            raise ValueError(
                f"{path}: the weights lack {', '.join(missing[:3])}{' ..' * (len(missing) > 3)}; "
                "expected all weights of a token classifier, not of its encoder alone"
            )
        model = model.eval().to(device)

        def run(ids: NDArray[np.int64]) -> NDArray[np.float32]:
            with torch.no_grad():
                batch = torch.from_numpy(ids).to(device)
                logits = model(input_ids=batch, attention_mask=torch.ones_like(batch)).logits
            return logits.float().cpu().numpy()

        return run

    return TokenClassifier(path, find_weights, open_model, "transformers", **options)


def _load_pretrained(kind: Any, folder: Path) -> tuple[Any, dict[str, Any]]:
    """Return the model of a folder and what Transformers notes, without running the folder's code.

    kind: an auto class of Transformers.
    """
    try:
        with reading(folder, "a token classifier of Transformers"):
            options = {"local_files_only": True, "trust_remote_code": False}
            options |= {"use_safetensors": True, "output_loading_info": True}
            return kind.from_pretrained(folder, **options)
    except ValueError as error:
        if "trust_remote_code" not in str(error):
            raise
        raise ValueError(
            f"{folder}: the model needs Python code of its folder, which is never run; expected "
            "an architecture that Transformers has itself"
        ) from None


def OnnxScores(
    path: str,
    *,
    file: str | None = None,
    providers: Sequence[str] = ("CPUExecutionProvider",),
    threads: int = 0,
    **options: Any,
) -> TokenClassifier:
    """`spacy-bcrf.OnnxScores.v1`: a token classifier in ONNX, quantized or not.

    file: the model in the folder; by default the only .onnx file in it or in its folder `onnx`.
    providers: of onnxruntime. threads: 0 for all cores. Other options: see `TokenClassifier`. Needs
    the extra onnx.
    """

    def find_weights() -> list[Path]:
        kinds = ("*.onnx", "onnx/*.onnx") if file is None else (file,)
        found = sorted({each for kind in kinds for each in Path(path).glob(kind)})
        if len(found) != 1:
            names = ", ".join(str(each.relative_to(path)) for each in found) or "none"
            raise ValueError(f"{path}: expected one .onnx file, got {names}. Set file to one")
        return [*found, *find_named_files(found[0])]

    def open_model() -> Run:
        runtime = require("onnxruntime", "onnx")
        settings = runtime.SessionOptions()
        settings.intra_op_num_threads = threads
        file = find_weights()[0]
        with reading(file, "a model that onnxruntime reads"):
            session = runtime.InferenceSession(str(file), settings, providers=list(providers))
        names = {each.name for each in session.get_inputs()}

        def run(ids: NDArray[np.int64]) -> NDArray[np.float32]:
            inputs = {
                "input_ids": ids,
                "attention_mask": np.ones_like(ids),
                "token_type_ids": np.zeros_like(ids),
            }
            return session.run(None, {n: v for n, v in inputs.items() if n in names})[0]

        return run

    return TokenClassifier(path, find_weights, open_model, "onnx", **options)
