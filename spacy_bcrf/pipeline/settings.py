"""The settings of a component that code may change: their types, checks and JSON values.

Every `Language()` imports this module, so it imports no kernels.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import MISSING, dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, overload

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, field_validator

from .platt_scaling import PlattScaling

if TYPE_CHECKING:
    from .codecs import Codec

ANNOTATIONS = {
    "confidence": "span._.confidence of every entity, the probability of these boundaries and this "
    "label; for a component that predicts tags, the same as tag_confidence",
    "tag_confidence": "token._.tag_confidence, the probability of the token's tag",
    "entropy": "doc._.sequence_entropy, of the labelings, in nats; doc._.entropy_per_token",
    "probability": "doc._.sequence_probability, of the predicted labeling",
}
TEMPERATURES = 1e-6, 1e6
"""Bounds of the temperature: divided scores keep the range and the precision of a float."""

PROMISES = ("precision", "recall")

T = TypeVar("T")
Self = TypeVar("Self", bound="Settings")


def is_number(value: object, low: float, high: float) -> bool:
    """Return whether a value is a number from low to high, and no truth value."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.floating):
        return False
    return bool(low <= value <= high)


@dataclass(frozen=True)
class Control:
    """Thresholds on posteriors that keep a promise.

    promise: "precision": predictions below their label's threshold are dropped; "recall": all spans
    from it on are written to `Doc.spans["candidates"]`. thresholds: of labels, in [0, 1] and above
    0 for "recall", for posteriors of the temperature. fitted_on: hashes of texts that `control` has
    seen, see `held_out.hash_texts`. Others: see `promises.control` and its `Loss`.
    """

    __pydantic_config__: ClassVar[ConfigDict] = {"extra": "forbid"}

    promise: str
    labels: tuple[str, ...]
    thresholds: tuple[Any, ...]
    temperature: float = 1.0
    values: tuple[float, ...] = ()
    groups: tuple[int, ...] = ()
    confidence: float = 0.95
    unit: str = "span"
    max_units: int = 1
    covered: bool = False
    fitted_on: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.promise not in PROMISES:
            raise ValueError(f"promise must be precision or recall, got {self.promise!r}")
        if len(self.labels) != len(self.thresholds):
            raise ValueError(
                f"expected one threshold a label, got {len(self.thresholds)} thresholds of "
                f"{len(self.labels)} labels"
            )
        if len(self.values) != len(self.groups) or len(self.groups) not in (0, len(self.labels)):
            raise ValueError("expected one value and one group a label, or none of both")
        is_open = self.promise == "recall"
        if self.covered and not (is_open and len({*self.thresholds}) == 1):
            raise ValueError("a covered promise is one of recall, with one threshold of all labels")
        expected = f"a number {'above 0 and at most 1' if is_open else 'in [0, 1]'}"
        for label, threshold in zip(self.labels, self.thresholds, strict=True):
            if not is_number(threshold, 0, 1) or (is_open and not threshold):
                raise ValueError(f"the threshold of {label} must be {expected}, got {threshold!r}")

    def by_group(self) -> Iterator[tuple[list[str], float, float]]:
        """Yield the labels of each promise, its value and its threshold."""
        for group in sorted(set(self.groups)):
            at = [i for i, of_label in enumerate(self.groups) if of_label == group]
            yield [self.labels[i] for i in at], self.values[at[0]], self.thresholds[at[0]]

    def by_label(self, labels: Iterable[str], default: float) -> NDArray[np.float64]:
        known = dict(zip(self.labels, self.thresholds, strict=True))
        return np.array([known.get(label, default) for label in labels], dtype="float64")


_EXPECTED: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "annotate": (
        f"a list of {', '.join(ANNOTATIONS)}",
        lambda value: isinstance(value, (list, tuple)) and all(a in ANNOTATIONS for a in value),
    ),
    "temperature": (
        "a number between {:g} and {:g}".format(*TEMPERATURES),
        lambda value: is_number(value, *TEMPERATURES),
    ),
    "threshold": (
        "a number from 0 to 1, or such numbers by label",
        lambda value: all(
            is_number(number, 0, 1)
            for number in (value.values() if isinstance(value, dict) else [value])
        ),
    ),
    "overwrite": ("true or false", lambda value: isinstance(value, bool)),
    "label_smoothing": ("a number in [0, 1)", lambda v: is_number(v, 0, 1) and v != 1),
}
"""What a setting must be. The types say the rest."""


class Settings(BaseModel):
    """The settings of every component. Each is an option of its config, with the same values.

    annotate: the custom attributes that `predict` writes, see ANNOTATIONS. temperature: divides all
    scores before probabilities. calibration: maps the confidences that `annotate` reports; all else
    uses the exact posteriors. threshold: predictions with a smaller posterior are dropped; a
    number, or numbers by label, 0 for the others. A dropped span is outside of all spans, a dropped
    tag is empty, preset annotation stays. control: thresholds by label that keep a promise, in
    place of `threshold`. calibrated_on: hashes of texts that `calibrate` has seen, see
    `held_out.hash_texts`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    annotate: tuple[str, ...] = ()
    temperature: float = 1.0
    calibration: PlattScaling | None = None
    threshold: float | dict[str, float] = 0.0
    control: Control | None = None
    calibrated_on: tuple[str, ...] = ()

    @classmethod
    def read(cls: type[Self], name: str, values: dict[str, Any]) -> Self:
        """Read the options of a config. ValueError with the component's name for a wrong value."""
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise ValueError(f"[{name}] {_explain(error, values)}") from None

    def change(self: Self, name: str, changes: dict[str, Any]) -> Self:
        return self.read(name, {**dict(self), **changes})

    def check(self, name: str, codec: Codec) -> None:
        """Raise ValueError for settings that the annotation of a component cannot have."""
        if self.calibration is not None:
            check_grouping(name, codec, self.calibration.by)
        if self.threshold:
            check_promise(name, codec, "precision")
        if self.control is not None:
            check_promise(name, codec, self.control.promise)

    @field_validator("*", mode="before")
    @classmethod
    def _check(cls, value: Any, info: ValidationInfo) -> Any:
        if info.field_name in _EXPECTED:
            expected, is_right = _EXPECTED[info.field_name]
            if not is_right(value):
                raise ValueError(f"{info.field_name} must be {expected}, got {value!r}")
        return value


def check_grouping(name: str, codec: Codec, by: str) -> None:
    """Raise ValueError if predictions have no such group."""
    if by not in groupings(codec):
        raise ValueError(
            f"[{name}] calibration by {by} needs spans, but the component predicts {codec.what}. "
            "Calibrate by label"
        )


def groupings(codec: Codec) -> tuple[str, ...]:
    """Return the groupings of predictions for Platt scaling: a tag has no length."""
    return ("label",) if codec.spans is None else ("label", "length")


class UnfitError(ValueError):
    """A component is of a kind that cannot do what is asked for, whatever its options are."""


def check_promise(name: str, codec: Codec, promise: str) -> None:
    """Raise UnfitError if the annotation cannot hold a promise of precision or recall."""
    try:
        codec.check_promise(promise)
    except ValueError as error:
        raise UnfitError(f"[{name}] {error}") from None


def check_label(name: str, codec: Codec, label: object) -> None:
    """Raise ValueError for a label that is no string, is blank, or that nothing can store."""
    if not isinstance(label, str):
        raise ValueError(f"[{name}] a label must be a string, got {label!r}")
    if not label.strip():
        raise ValueError(
            f"[{name}] a label cannot be blank, got {label!r}. No label means missing annotation"
        )
    try:
        codec.check_label(label)
    except ValueError as error:
        raise ValueError(f"[{name}] {error}") from None


class TaggerSettings(Settings):
    """overwrite: replace preset tags. label_smoothing: share of gold tags over all, in [0, 1)."""

    overwrite: bool = False
    label_smoothing: float = 0.0


class EntitySettings(Settings):
    """entity_ratio: a `chain.ExpectedEntityRatio` or its options, as a loss on each batch."""

    entity_ratio: Any = None

    @field_validator("entity_ratio", mode="before")
    @classmethod
    def _read_entity_ratio(cls, value: Any) -> Any:
        from bcrf.chain.expected_entity_ratio import ExpectedEntityRatio

        if value is None or isinstance(value, ExpectedEntityRatio):
            return value
        try:
            return ExpectedEntityRatio(**value)
        except TypeError:
            numbers = "the numbers ratio, margin, weight"
            raise ValueError(f"entity_ratio must have {numbers}, got {value}") from None


def _explain(error: ValidationError, values: dict[str, Any]) -> str:
    """Return one line: the message of our own checks, or what an option must have."""
    first = error.errors()[0]
    if "error" in first.get("ctx", {}):
        return str(first["ctx"]["error"])
    option = str(first["loc"][0])
    kind = {"control": Control, "calibration": PlattScaling}.get(option)
    if kind is None:
        return f"{option}: {first['msg']}, got {first['input']!r}"
    *names, last = (field.name for field in fields(kind) if field.default is MISSING)
    return f"{option} must have {', '.join(names)} and {last}, got {values[option]!r}"


class Setting(Generic[T]):
    """An attribute of a component that is one of its settings. Assignment checks the value."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, component: None, owner: type) -> Setting[T]: ...
    @overload
    def __get__(self, component: Any, owner: type) -> T: ...
    def __get__(self, component: Any, owner: type) -> Any:
        return self if component is None else getattr(component.settings, self._name)

    def __set__(self, component: Any, value: Any) -> None:
        component.change_setting(self._name, value)


class FittedSetting(Setting[T]):
    """A setting that training fits. An assigned value stays until the component learns again."""

    def __set__(self, component: Any, value: Any) -> None:
        component.end_fit()
        super().__set__(component, value)


def find_configured(changes: str, current: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of the config. changes: of `record_changes`."""
    return current | {name: configured for name, (configured, _) in json.loads(changes).items()}


def record_changes(changes: str, before: dict[str, Any], current: dict[str, Any]) -> str:
    """Return changed settings, and all with a "$", as JSON text: name -> (configured, current).

    changes: those so far. before: the settings that had them.
    """
    configured = find_configured(changes, before)
    changed = {
        name: (configured[name], value)
        for name, value in current.items()
        if value != configured[name] or "$" in json.dumps(value)
    }
    # spaCy's own JSON reader changes the last digit of some numbers.
    return json.dumps(changed)


def _single_dollars(value: Any) -> str:
    # spaCy doubles them in a config at every save.
    return re.sub(r"\$+", "$", json.dumps(value))


def apply_changes(
    name: str, changes: str, configured: dict[str, Any], change: Callable[[str, Any], None]
) -> None:
    """Change saved settings again, unless the config's value is new. ValueError for unknown."""
    for setting, (was_configured, value) in json.loads(changes).items():
        if setting not in configured:
            raise ValueError(
                f"[{name}] the saved component has the unknown setting {setting!r}; expected one "
                f"of {', '.join(configured)}"
            )
        if _single_dollars(configured[setting]) == _single_dollars(was_configured):
            change(setting, value)
