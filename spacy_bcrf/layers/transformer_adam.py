"""`spacy-bcrf.TransformerAdam.v1`: Adam with a smaller rate for a transformer than for the rest."""

from thinc.optimizers import FloatOrSeq, KeyT, Optimizer
from thinc.types import FloatsXd


class TransformerAdam(Optimizer):
    """Adam whose rate for a transformer is `transformer_factor` times that of other layers.

    A pretrained transformer needs small steps, and a head whose weights start at 0 large ones. The
    names of a transformer's parameters have dots, such as `encoder.layer.0.output.dense.weight`.
    `grad_factor` of a listener scales gradients, which Adam divides by their size. Other options:
    see `thinc.api.Adam`, with the defaults of spaCy's training.
    """

    def __init__(
        self,
        learn_rate: FloatOrSeq = 0.001,
        *,
        transformer_factor: float = 0.03,
        L2: FloatOrSeq = 0.01,
        grad_clip: FloatOrSeq = 1.0,
        use_averages: bool = False,
    ) -> None:
        super().__init__(learn_rate, L2=L2, grad_clip=grad_clip, use_averages=use_averages)
        self.transformer_factor = transformer_factor

    def __call__(
        self, key: KeyT, weights: FloatsXd, gradient: FloatsXd, *, lr_scale: float = 1.0
    ) -> tuple[FloatsXd, FloatsXd]:
        if "." in key[1]:
            lr_scale *= self.transformer_factor
        return super().__call__(key, weights, gradient, lr_scale=lr_scale)
