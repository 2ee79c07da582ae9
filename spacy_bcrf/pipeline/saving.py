"""Saving and loading of a component, with the settings that code has changed."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from spacy.pipeline import TrainablePipe

from spacy_bcrf.layers.model_taggers import restore_taggers

from .codecs import Codec
from .held_out import HeldOut
from .load_checks import check_loaded, find_damaged
from .queries import PosteriorQueries
from .settings import apply_changes, find_configured


class SavedComponent(PosteriorQueries, TrainablePipe):
    """A component that is saved with its labels, its settings and its model."""

    cfg: dict[str, Any]
    _codec: Codec
    _held_out: HeldOut
    settings_as_json: Callable[[], dict[str, Any]]
    _set_labels: Callable[[], None]

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """Save the component, calibrated if it has learned."""
        self._held_out.end_training(self)
        return super().to_bytes(exclude=exclude)

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Save the component, calibrated if it has learned."""
        self._held_out.end_training(self)
        super().to_disk(path, exclude=exclude)

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = ()) -> "SavedComponent":
        """Load the component from bytes. ValueError if it does not fit the config."""
        return self._load(super().from_bytes, bytes_data, exclude)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> "SavedComponent":
        """Load the component from a folder. ValueError if it does not fit the config."""
        try:
            return self._load(super().from_disk, path, exclude)
        except ValueError as error:
            raise ValueError(f"{find_damaged(path)}: {error}") from error
        except (Exception, MemoryError) as error:  # thinc and msgpack raise any for damaged files
            raise ValueError(
                f"{find_damaged(path)}: [{self.name}] the files are damaged, or of another version "
                f"({type(error).__name__}: {error}); restore them, or train the component again"
            ) from error

    def _load(self, load: Callable, source: Any, exclude: Iterable[str]) -> "SavedComponent":
        """Load the component, and change the settings again that code changed before saving."""
        of_tags = {key: self.cfg[key] for key in self._codec.settings}
        own, self.cfg["changed"] = self.cfg["changed"], "{}"  # 0.1.0 saved no settings.
        self.cfg.pop("scores", None)
        load(source, exclude=exclude)
        labels = self.cfg.get("labels")
        if not (isinstance(labels, list) and all(isinstance(label, str) for label in labels)):
            raise ValueError(f"[{self.name}] cfg is damaged: labels must be a list of strings")
        loaded, self.cfg["changed"] = self.cfg["changed"], own
        configured = find_configured(own, self.settings_as_json())
        apply_changes(self.name, loaded, configured, self.change_setting)
        self._codec.state = {key: self.cfg[key] for key in self._codec.state}
        self._set_labels()
        check_loaded(self.labeling, self.cfg, of_tags, self.codec.tags)
        folder = None if isinstance(source, bytes) else Path(source).parent
        restore_taggers(self.model, self.cfg.get("scores", {}), folder)
        return self
