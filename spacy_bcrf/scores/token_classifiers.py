"""Token classifiers of Hugging Face, as PyTorch or ONNX models in local folders."""

import json
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc

from bcrf.io.extras import require
from bcrf.io.hashes import hash_files
from bcrf.lazy import lazy

from .subwords import Pooling, Window, plan_windows, pool

# Models whose positions start after those of the padding.
_PADDED = {"roberta", "xlm-roberta", "camembert", "longformer"}


def read_config(folder: Path) -> dict[str, Any]:
    """Return the content of `config.json`. ValueError if it is none of a model."""
    file = folder / "config.json"
    try:
        config = json.loads(file.read_text(encoding="utf8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file}: is damaged ({error}); expected the JSON of a model") from None
    if not isinstance(config, dict) or not isinstance(config.get("id2label", {}), dict):
        raise ValueError(f"{file}: expected a JSON object, with labels by number in id2label")
    return config


class TokenClassifier(ABC):
    """What models in PyTorch and ONNX share: labels, sub-words, windows and batches.

    path: folder with `config.json` (its `id2label`) and `tokenizer.json`.
    pooling: from sub-words to tokens, see `subwords.pool`.
    window: most sub-words at once, fewer if the model reads fewer. A longer text is cut into
        windows that overlap by `overlap` sub-words.
    batch_size: windows of the same number of sub-words that the model reads at once.
    """

    def __init__(
        self,
        path: str,
        *,
        pooling: Pooling = "first",
        window: int = 512,
        overlap: int = 128,
        batch_size: int = 16,
    ) -> None:
        if pooling not in ("first", "mean", "max"):
            raise ValueError(f"pooling must be first, mean or max, got {pooling!r}")
        if not 0 <= overlap <= window // 2:
            raise ValueError(f"overlap must be from 0 to window / 2, got {overlap} and {window}")
        self.path = Path(path)
        self.pooling = pooling
        self.window = window
        self.overlap = overlap
        self.batch_size = batch_size

    @abstractmethod
    def logits(self, ids: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the logits (B, S, L) of sequences of S sub-words, with the special ones."""

    @abstractmethod
    def model_files(self) -> Iterable[Path]:
        """Return the files that determine the logits."""

    @lazy
    def _config(self) -> dict[str, Any]:
        file = self.path / "config.json"
        if not file.is_file():
            raise ValueError(
                f"{file}: no such file; expected the folder of a token classifier with "
                "config.json and tokenizer.json"
            )
        config = read_config(self.path)
        if len(config.get("id2label", ())) < 2:
            raise ValueError(f"{file}: expected two labels or more in id2label")
        return config

    @lazy
    def labels(self) -> list[str]:
        by_id = {int(i): label for i, label in self._config["id2label"].items()}
        return [by_id[i] for i in range(len(by_id))]

    @lazy
    def identity(self) -> str:
        options = [self.pooling, self.window, self.overlap]
        files = [self.path / "config.json", self.path / "tokenizer.json", *self.model_files()]
        return f"{hash_files(*files)} {options}"

    @lazy
    def _tokenizer(self) -> Any:
        file = self.path / "tokenizer.json"
        if not file.is_file():
            raise ValueError(
                f"{file}: no such file; AutoTokenizer.from_pretrained({str(self.path)!r})"
                ".save_pretrained writes it"
            )
        tokenizer = require("tokenizers", self.extra).Tokenizer.from_file(str(file))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return tokenizer

    extra = "transformers"

    @lazy
    def _specials(self) -> tuple[list[int], list[int]]:
        """The ids of special sub-words before and after a text."""
        found = self._tokenizer.encode("a")
        mask = found.special_tokens_mask
        n_before = next((i for i, special in enumerate(mask) if not special), 0)
        n_after = next((i for i, special in enumerate(reversed(mask)) if not special), 0)
        return found.ids[:n_before], found.ids[len(mask) - n_after :]

    @lazy
    def _budget(self) -> int:
        """Most sub-words of a window, without special ones."""
        most = self._config.get("max_position_embeddings", self.window)
        if self._config.get("model_type") in _PADDED:
            most -= self._config.get("pad_token_id", 1) + 1
        return max(min(most, self.window) - sum(map(len, self._specials)), 1)

    @abstractmethod
    def load(self) -> None:
        """Load the model. ImportError names the extra."""

    def __call__(self, docs: Sequence[Doc]) -> list[NDArray[np.float32]]:
        found = self._tokenizer.encode_batch([doc.text for doc in docs], add_special_tokens=False)
        ids = [one.ids for one in found]
        n_labels = len(self.labels)
        values = [np.zeros((len(each), n_labels), dtype="float32") for each in ids]
        overlap = min(self.overlap, self._budget // 2)
        # Sequences of one length need no padding, which would change what quantized models say.
        by_length: dict[int, list[tuple[int, Window]]] = defaultdict(list)
        for i, each in enumerate(ids):
            for window in plan_windows(len(each), self._budget, overlap) if each else ():
                by_length[window.end - window.start].append((i, window))
        before, after = self._specials
        for windows in by_length.values():
            for start in range(0, len(windows), self.batch_size):
                some = windows[start : start + self.batch_size]
                rows = [[*before, *ids[i][w.start : w.end], *after] for i, w in some]
                logits = np.asarray(self.logits(np.array(rows, dtype="int64")), dtype="float32")
                for (i, w), of_window in zip(some, logits, strict=True):
                    kept = slice(w.first_kept, w.last_kept)
                    at = np.arange(w.first_kept, w.last_kept) - w.start + len(before)
                    values[i][kept] = _log_softmax(of_window[at])
        pairs = zip(docs, found, values, strict=True)
        return [pool(doc, one.offsets, of_doc, self.pooling) for doc, one, of_doc in pairs]


def _log_softmax(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    shifted = logits - logits.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


class HuggingFaceScores(TokenClassifier):
    """`spacy-bcrf.HuggingFaceScores.v1`: a token classifier that `save_pretrained` wrote.

    device: of PyTorch, such as "cuda". Other options: see `TokenClassifier`. Needs the extra
    transformers. Reads no network.
    """

    def __init__(self, path: str, *, device: str = "cpu", **options: Any) -> None:
        super().__init__(path, **options)
        self.device = device

    def model_files(self) -> Iterable[Path]:
        return [*self.path.glob("*.safetensors"), *self.path.glob("pytorch_model*.bin")]

    @lazy
    def _model(self) -> Any:
        classes = require("transformers", self.extra)
        model = classes.AutoModelForTokenClassification.from_pretrained(
            self.path, local_files_only=True
        )
        return model.eval().to(self.device)

    def load(self) -> None:
        self._model  # noqa: B018
        self._tokenizer  # noqa: B018

    def logits(self, ids: NDArray[np.int64]) -> NDArray[np.float32]:
        torch = require("torch", "torch")
        with torch.no_grad():
            batch = torch.from_numpy(ids).to(self.device)
            found = self._model(input_ids=batch, attention_mask=torch.ones_like(batch))
        return found.logits.float().cpu().numpy()


class OnnxScores(TokenClassifier):
    """`spacy-bcrf.OnnxScores.v1`: a token classifier in ONNX, quantized or not.

    file: the model in the folder; by default the only .onnx file in it or in its folder `onnx`.
    providers: of onnxruntime. threads: 0 for all cores. Other options: see `TokenClassifier`. Needs
    the extra onnx.
    """

    extra = "onnx"

    def __init__(
        self,
        path: str,
        *,
        file: str | None = None,
        providers: Sequence[str] = ("CPUExecutionProvider",),
        threads: int = 0,
        **options: Any,
    ) -> None:
        super().__init__(path, **options)
        self.file = file
        self.providers = list(providers)
        self.threads = threads

    def model_files(self) -> Iterable[Path]:
        if self.file is not None:
            found = [self.path / self.file]
        else:
            found = sorted({*self.path.glob("*.onnx"), *self.path.glob("onnx/*.onnx")})
        if len(found) != 1 or not found[0].is_file():
            names = ", ".join(str(path.relative_to(self.path)) for path in found) or "none"
            raise ValueError(
                f"{self.path}: expected one .onnx file, got {names}. Set file to one of them"
            )
        return [*found, *found[0].parent.glob(f"{found[0].name}_data*")]

    @lazy
    def _session(self) -> Any:
        runtime = require("onnxruntime", self.extra)
        options = runtime.SessionOptions()
        options.intra_op_num_threads = self.threads
        (file, *_) = self.model_files()
        return runtime.InferenceSession(str(file), options, providers=self.providers)

    def load(self) -> None:
        self._session  # noqa: B018
        self._tokenizer  # noqa: B018

    def logits(self, ids: NDArray[np.int64]) -> NDArray[np.float32]:
        inputs = {
            "input_ids": ids,
            "attention_mask": np.ones_like(ids),
            "token_type_ids": np.zeros_like(ids),
        }
        names = {each.name for each in self._session.get_inputs()}
        return self._session.run(None, {n: v for n, v in inputs.items() if n in names})[0]
