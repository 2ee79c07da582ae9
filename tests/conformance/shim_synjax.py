"""The interface of synjax's `LinearChainCRF` to `bcrf.chain`.

`log_count`, `log_prob` and `cross_entropy` stay synjax's, over our log-partitions and marginals.
"""

import os

# synjax's own script disables these checks of types too.
os.environ["JAXTYPING_DISABLE"] = "1"

import equinox
import jax.numpy as jnp
import numpy as np
from synjax._src import linear_chain_crf

from bcrf import chain


class LinearChainCRF(linear_chain_crf.LinearChainCRF):
    """Log-potentials (B, N, from, to) of the edges into each tag; the first has one source, 0."""

    def _potentials(self):
        edges = np.asarray(self.log_potentials, "float64")
        lengths = np.asarray(self.lengths, "int32")
        self._check(edges, lengths)
        size, steps, tags = edges.shape[:3]
        unary = np.zeros((size, steps, tags))
        unary[:, 0] = edges[:, 0, 0]
        after = np.concatenate([edges[:, 1:], np.zeros((size, 1, tags, tags))], axis=1)
        return chain.Potentials(unary.reshape(-1, tags), after.reshape(-1, tags, tags), lengths)

    @staticmethod
    def _check(edges, lengths):
        assert edges.ndim == 4 and (lengths == edges.shape[1]).all(), "the tests have full batches"

    def _parts(self, tags):
        """Return the edges of labelings (..., B N) as zeros and ones."""
        shape = self.log_potentials.shape
        found = np.eye(shape[-1])[tags].reshape(*tags.shape[:-1], *shape[:3])
        before = np.roll(found, 1, axis=-2)
        before[..., 0, :] = np.eye(shape[-1])[0]
        return jnp.asarray(before[..., :, None] * found[..., None, :], "float32")

    def log_partition(self, **_):
        return jnp.asarray(chain.CRF().log_partition(self._potentials()), "float32")

    def marginals(self):
        found = chain.CRF().marginals(self._potentials(), edges=True)
        shape = self.log_potentials.shape
        edges = np.roll(found.edges.reshape(shape), 1, axis=1)
        edges[:, 0] = 0
        edges[:, 0, 0] = found.unary.reshape(shape[:3])[:, 0]
        return jnp.asarray(edges, "float32")

    def marginals_for_template_variables(self, **_):
        return equinox.tree_at(lambda dist: dist.log_potentials, self, self.marginals())

    def entropy(self, **_):
        return jnp.asarray(chain.entropy(self._potentials()), "float32")

    def kl_divergence(self, other, **_):
        return self.cross_entropy(other) - self.cross_entropy(self)

    def argmax(self, **_):
        return self._parts(chain.CRF().decode(self._potentials()))

    def sample(self, key, sample_shape=(), **_):
        random = np.random.default_rng(np.asarray(key))
        return self._parts(chain.sample(self._potentials(), sample_shape, random))

    def top_k(self, k, approximate=False, **_):
        best = chain.nbest(self._potentials(), k)
        tags = np.concatenate([tags for tags, _ in best], axis=1)
        scores = np.stack([scores for _, scores in best], axis=1)
        return self._parts(tags), jnp.asarray(scores, "float32")


linear_chain_crf.LinearChainCRF = LinearChainCRF
