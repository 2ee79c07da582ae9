"""The rates of a transformer and of the layers around it."""

import numpy as np
import pytest
from spacy.util import load_config_from_str, registry
from thinc.api import Adam

from spacy_bcrf.layers.transformer_adam import TransformerAdam

CONFIG = """
[optimizer]
@optimizers = "spacy-bcrf.TransformerAdam.v1"
transformer_factor = 0.1
L2 = 0.0

[optimizer.learn_rate]
@schedules = "warmup_linear.v1"
warmup_steps = 1
total_steps = 3
initial_rate = 0.5
"""


def step(optimizer, name):
    weights = np.ones((2, 3), dtype="float32")
    gradient = np.full((2, 3), 0.1, dtype="float32")
    return optimizer((1, name), weights, gradient)[0]


@pytest.mark.parametrize("options", [{}, {"L2": 0.5, "grad_clip": 0.1, "use_averages": True}])
def test_only_the_names_of_a_transformer_have_dots(options):
    alike = {"L2": 0.01, "use_averages": False, **options}
    ours = TransformerAdam(0.2, transformer_factor=0.25, **options)
    np.testing.assert_array_equal(step(ours, "W"), step(Adam(0.2, **alike), "W"))
    small = step(Adam(0.05, **alike), "W")
    np.testing.assert_allclose(step(ours, "encoder.layer.0.weight"), small, rtol=1e-6)


def test_the_schedule_is_of_both_rates():
    optimizer = registry.resolve(load_config_from_str(CONFIG))["optimizer"]
    moved = []
    for _ in range(2):
        head, encoder = step(optimizer, "b"), step(optimizer, "layer.b")
        moved.append([1 - head.mean(), 1 - encoder.mean()])
        optimizer.step_schedules()
    (head, encoder), second = moved
    assert head == encoder == 0  # the warm-up starts at 0
    assert second[0] == pytest.approx(10 * second[1], rel=1e-4)
