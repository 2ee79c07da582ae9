"""Token classifiers of Hugging Face, as PyTorch or ONNX models in local folders."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc

from bcrf.io.extras import require
from bcrf.io.hashes import hash_files
from bcrf.lazy import lazy

from .subwords import Pooling, Window, plan_windows, pool

Run = Callable[[NDArray[np.int64]], NDArray[np.float32]]
WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
"""Files of Hugging Face Transformers."""
BATCH_SIZE = 16
"""Windows of the same number of sub-words that a model reads at once."""
# Models whose positions start after those of the padding.
_PADDED = {"roberta", "xlm-roberta", "camembert", "longformer"}


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


class TokenClassifier:
    """A model's labels, sub-words, windows and batches.

    path: folder with `config.json` (its `id2label`) and `tokenizer.json`.
    find_weights: returns the other files that determine the logits.
    open_model: returns the function from sub-words (B, S), special ones included, to logits
        (B, S, L).
    extra: that the model needs.
    pooling: from sub-words to tokens, see `subwords.pool`.
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
    def _config(self) -> dict[str, Any]:
        config = read_config(self.path)
        if len(config.get("id2label", ())) < 2:
            raise ValueError(
                f"{self.path / 'config.json'}: expected two labels or more in id2label"
            )
        return config

    @lazy
    def labels(self) -> list[str]:
        by_id = {int(i): label for i, label in self._config["id2label"].items()}
        return [by_id[i] for i in range(len(by_id))]

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
        tokenizer = require("tokenizers", self._extra).Tokenizer.from_file(str(file))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return tokenizer

    @lazy
    def _run(self) -> Run:
        return self._open_model()

    def load(self) -> None:
        self._run  # noqa: B018
        self._tokenizer  # noqa: B018

    @lazy
    def _specials(self) -> tuple[list[int], list[int]]:
        """The ids of special sub-words before and after a text."""
        found = self._tokenizer.encode("a")
        mask = found.special_tokens_mask
        return found.ids[: mask.index(0)], found.ids[len(mask) - mask[::-1].index(0) :]

    @lazy
    def _budget(self) -> int:
        """Most sub-words of a window, without special ones."""
        most = self._config.get("max_position_embeddings", self.window)
        if self._config.get("model_type") in _PADDED:
            most -= self._config.get("pad_token_id", 1) + 1
        return max(min(most, self.window) - sum(map(len, self._specials)), 1)

    def __call__(self, docs: Sequence[Doc]) -> list[NDArray[np.float32]]:
        found = self._tokenizer.encode_batch([doc.text for doc in docs], add_special_tokens=False)
        values = [np.zeros((len(one.ids), len(self.labels)), dtype="float32") for one in found]
        overlap = min(self.overlap, self._budget // 2)
        # Sequences of one length need no padding, which would change what quantized models say.
        by_length: dict[int, list[tuple[int, Window]]] = defaultdict(list)
        for i, one in enumerate(found):
            for window in plan_windows(len(one.ids), self._budget, overlap) if one.ids else ():
                by_length[window.end - window.start].append((i, window))
        before, after = self._specials
        for windows in by_length.values():
            for start in range(0, len(windows), BATCH_SIZE):
                some = windows[start : start + BATCH_SIZE]
                rows = [[*before, *found[i].ids[w.start : w.end], *after] for i, w in some]
                logits = np.asarray(self._run(np.array(rows, dtype="int64")), dtype="float32")
                for (i, w), of_window in zip(some, logits, strict=True):
                    at = np.arange(w.first_kept, w.last_kept)
                    kept = of_window[at - w.start + len(before)]
                    values[i][at] = kept - np.logaddexp.reduce(kept, axis=1, keepdims=True)
        pairs = zip(docs, found, values, strict=True)
        return [pool(doc, one.offsets, of_doc, self.pooling) for doc, one, of_doc in pairs]


def HuggingFaceScores(path: str, *, device: str = "cpu", **options: Any) -> TokenClassifier:
    """`spacy-bcrf.HuggingFaceScores.v1`: a token classifier that `save_pretrained` wrote.

    device: of PyTorch, such as "cuda". Other options: see `TokenClassifier`. Needs the extra
    transformers. Reads no network.
    """

    def find_weights() -> list[Path]:
        return [f for kind in WEIGHTS for f in sorted(Path(path).glob(kind))]

    def open_model() -> Run:
        torch, classes = require("torch", "torch"), require("transformers", "transformers")
        of_tokens = classes.AutoModelForTokenClassification
        model = of_tokens.from_pretrained(path, local_files_only=True).eval().to(device)

        def run(ids: NDArray[np.int64]) -> NDArray[np.float32]:
            with torch.no_grad():
                batch = torch.from_numpy(ids).to(device)
                logits = model(input_ids=batch, attention_mask=torch.ones_like(batch)).logits
            return logits.float().cpu().numpy()

        return run

    return TokenClassifier(path, find_weights, open_model, "transformers", **options)


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
        return [*found, *found[0].parent.glob(f"{found[0].name}_data*")]

    def open_model() -> Run:
        runtime = require("onnxruntime", "onnx")
        settings = runtime.SessionOptions()
        settings.intra_op_num_threads = threads
        session = runtime.InferenceSession(
            str(find_weights()[0]), settings, providers=list(providers)
        )
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
