from types import ModuleType

from .backend import Array, BregmanOptions, Edges, Result

def instruction_sets() -> tuple[str, ...]: ...
def instruction_set() -> str: ...
def sum_product(
    xp: ModuleType,
    unary: Array,
    transitions: Array,
    lengths: Array,
    edges: Edges,
    marginals: bool,
) -> Result: ...
def max_product(
    xp: ModuleType, unary: Array, transitions: Array, lengths: Array
) -> tuple[Array, Array]: ...
def entropy(xp: ModuleType, unary: Array, transitions: Array, lengths: Array) -> Array: ...
def pair_marginals(
    xp: ModuleType,
    unary: Array,
    transitions: Array,
    lengths: Array,
    heads: Array,
    tails: Array,
) -> tuple[Array, Array]: ...
def sample(
    xp: ModuleType, unary: Array, transitions: Array, lengths: Array, uniform: Array
) -> Array: ...
def nbest(
    xp: ModuleType, unary: Array, transitions: Array, lengths: Array, n: int
) -> tuple[Array, Array]: ...
def beam_search(
    xp: ModuleType, unary: Array, transitions: Array, lengths: Array, n: int, width: int
) -> tuple[Array, Array]: ...
def dijkstra(
    xp: ModuleType, unary: Array, transitions: Array, lengths: Array
) -> tuple[Array, Array, Array]: ...
def path_scores(
    xp: ModuleType, unary: Array, transitions: Array, lengths: Array, tags: Array
) -> Array: ...
def add_features(
    xp: ModuleType,
    tags: Array,
    weights: Array,
    lengths: Array,
    node: Array,
    edge: Array,
) -> None: ...
def gram_matrices(
    xp: ModuleType, tags: Array, lengths: Array, n_tags: int, shared: bool
) -> Array: ...
def hildreth(xp: ModuleType, gains: Array, gram: Array, most: float) -> Array: ...
def bregman(
    xp: ModuleType,
    unary: Array,
    transitions: Array,
    lengths: Array,
    options: BregmanOptions,
    edges: Edges,
) -> Result: ...
def mean_field(
    xp: ModuleType, unary: Array, transitions: Array, lengths: Array, n_iter: int
) -> Result: ...
def mean_field_loss(
    xp: ModuleType,
    unary: Array,
    transitions: Array,
    lengths: Array,
    gold: Array,
    n_iter: int,
) -> Result: ...
