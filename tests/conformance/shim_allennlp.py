"""A module `allennlp` whose `ConditionalRandomField` is `bcrf.torch.CRF`.

The stand-ins of allennlp's other names are empty: its tests of other modules do not apply.
"""

import sys
from types import ModuleType

import numpy as np
import torch

from bcrf.chain import Constraints
from bcrf.torch import CRF


class ConditionalRandomField(CRF):
    """allennlp's names over ours: constraints as pairs, and `viterbi_tags`."""

    def __init__(self, num_tags, constraints=None, include_start_end_transitions=True):
        self.decoder = None
        super().__init__(num_tags, batch_first=True)
        # allennlp's constraints hold for decoding only.
        if constraints is not None:
            allowed = np.zeros((num_tags + 2, num_tags + 2), bool)
            allowed[tuple(zip(*constraints, strict=True))] = True
            inner = allowed[:num_tags, :num_tags]
            ends = allowed[num_tags, :num_tags], allowed[:num_tags, num_tags + 1]
            constraints = Constraints(inner, *ends)
            self.decoder = CRF(num_tags, batch_first=True, constraints=constraints)

    def viterbi_tags(self, logits, mask=None, top_k=None):
        decoder = self.decoder or CRF(self.num_tags, batch_first=True)
        decoder.load_state_dict(
            {k: x for k, x in self.state_dict().items() if not k.startswith("decoder.")}
        )
        found = []
        for i, row in enumerate(logits):
            # allennlp's mask may have holes: it selects tokens.
            tokens = row if mask is None else row[mask[i].bool()]
            found += decoder.nbest(tokens[None], top_k or 1)
        return found if top_k else [best[0] for best in found]


class AllenNlpTestCase:
    def setup_method(self):
        pass


def _module(name, **names):
    module = ModuleType(name)
    vars(module).update(names)
    sys.modules[name] = module


_other = type("Other", (torch.nn.Module,), {})
_others = {
    f"ConditionalRandomFieldWeight{name}": _other for name in ("Emission", "Trans", "Lannoy")
}
_module("allennlp")
_module("allennlp.modules", ConditionalRandomField=ConditionalRandomField)
_module("allennlp.modules.conditional_random_field", **_others)
_module(
    "allennlp.modules.conditional_random_field.conditional_random_field", allowed_transitions=None
)
_module("allennlp.common")
_module("allennlp.common.checks", ConfigurationError=ValueError)
_module("allennlp.common.testing", AllenNlpTestCase=AllenNlpTestCase)
