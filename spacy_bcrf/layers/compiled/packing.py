"""Packed copies of a layer's parameters, for the kernels."""

from typing import Any

from thinc.api import Model

from bcrf.kernels import encoder as kernels

from .matching import MaxoutBlock, Unsupported


def check_finite(node: Model, name: str, where: str) -> None:
    """Raise ValueError for a parameter that is not finite. where: its place in the model."""
    if not node.ops.xp.isfinite(node.get_param(name)).all():
        raise ValueError(
            f"the parameter {name} of a {node.name} layer ({where}) is not finite. The training "
            "diverged, or the file of the model is damaged"
        )


class Packing:
    """The Maxout layers of a compiled layer, and the packed copy of their parameters."""

    def __init__(self, layers: list[MaxoutBlock], window: int, residual: bool):
        self.layers, self.window, self.residual = layers, window, residual
        self._packed: tuple[int, kernels.Stack] | None = None
        """The copy, after the fingerprint of the parameters."""
        self._checked: int | None = None
        """The fingerprint of finite parameters."""

    @property
    def ready(self) -> bool:
        return all(layer.ready for layer in self.layers)

    def stack(self, check: bool = True) -> kernels.Stack:
        """Return the packed parameters. `check` raises ValueError if one is not finite."""
        params: Any = [
            [node.get_param(name) for node, name in layer.params] for layer in self.layers
        ]
        mark = kernels.fingerprint([array for layer in params for array in layer])
        packed = self._packed
        if packed is None or packed[0] != mark:
            try:
                stack = kernels.Stack(params, window=self.window, residual=self.residual)
            except ValueError as error:
                raise Unsupported(str(error)) from error
            # One assignment, because several threads may predict.
            self._packed = packed = mark, stack
        if check and self._checked != mark:
            self.check()
            self._checked = mark
        return packed[1]

    def check(self) -> None:
        for i, layer in enumerate(self.layers):
            for node, name in layer.params:
                check_finite(node, name, f"layer {i + 1} of {len(self.layers)}")

    def add_gradients(self, gradients: list[tuple[Any, ...]]) -> None:
        for layer, gradient in zip(self.layers, gradients, strict=True):
            for (node, name), value in zip(layer.params, gradient, strict=True):
                node.inc_grad(name, value)
