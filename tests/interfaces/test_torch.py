"""`bcrf.torch` against enumeration, numerical gradients and pytorch-crf."""

import itertools
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from oracles import enumeration  # noqa: E402

from bcrf import chain  # noqa: E402
from bcrf.torch import (  # noqa: E402
    BCRF,
    CRF,
    MeanField,
    Unstructured,
    entropy,
    log_likelihood,
    log_partition,
    marginals,
    potentials,
)
from bcrf.torch.operators import describe  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
STEPS, SIZE, TAGS = 4, 3, 3
LENGTHS = [4, 1, 2]
MASK = torch.arange(STEPS)[:, None] < torch.tensor(LENGTHS)
HEADS = [CRF(TAGS), BCRF(TAGS, n_iter=200), MeanField(TAGS, n_iter=200), Unstructured(TAGS)]
# Mean field takes no partial annotation.
PARTIAL = [head for head in HEADS if not isinstance(head, MeanField)]


def by_name(head):
    return type(head).__name__


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)
    # Compiled graphs of one test must not count as recompilations of another.
    torch.compiler.reset()


@pytest.fixture
def scores():
    """Emissions, transitions, start and end, float64."""
    shapes = (STEPS, SIZE, TAGS), (TAGS, TAGS), (TAGS,), (TAGS,)
    return [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]


@pytest.fixture
def tags():
    return torch.randint(TAGS, (STEPS, SIZE))


def loaded(head, scores):
    """A double head with these transitions, start and end."""
    with torch.no_grad():
        head = type(head)(TAGS, **vars(head.inference)).double()
        for parameter, x in zip(
            (head.transitions, head.start_transitions, head.end_transitions),
            scores[1:],
            strict=True,
        ):
            parameter.copy_(x)
    return head


def ragged(scores):
    return potentials(*(x.detach() for x in scores), MASK)


def allow(gold):
    """The labelings of each sequence that gold (L, B) or (L, B, T) allows, by enumeration."""
    for b, length in enumerate(LENGTHS):
        yield [
            list(tags)
            for tags in itertools.product(range(TAGS), repeat=length)
            if all(
                bool(gold[i, b, t]) if gold.dtype == torch.bool else int(gold[i, b]) in (t, -100)
                for i, t in enumerate(tags)
            )
        ]


def enumerate_log_likelihood(scores, gold):
    """(B,) with derivatives by autograd."""
    emissions, transitions, start, end = scores
    found = []
    for b, allowed in enumerate(allow(gold)):

        def total(tags, b=b):
            edges = [transitions[u, v] for u, v in itertools.pairwise(tags)]
            unary = [emissions[i, b, tag] for i, tag in enumerate(tags)]
            return sum(unary) + sum(edges) + start[tags[0]] + end[tags[-1]]

        every = itertools.product(range(TAGS), repeat=LENGTHS[b])
        log_z = torch.logsumexp(torch.stack([total(tags) for tags in every]), 0)
        found.append(torch.logsumexp(torch.stack([total(tags) for tags in allowed]), 0) - log_z)
    return torch.stack(found)


def gold_of(kind, tags):
    gold = tags.clone()
    if kind != "complete":
        gold[1, 0] = gold[0, 1] = -100
    if kind != "allowed":
        return gold
    return (
        torch.rand(STEPS, SIZE, TAGS).lt(0.5)
        | torch.nn.functional.one_hot(gold.clamp(min=0), TAGS).bool()
    )


@pytest.mark.parametrize("kind", ["complete", "partial", "allowed"])
@pytest.mark.parametrize("batch_first", [False, True])
def test_log_likelihood_and_gradients_are_those_of_enumeration(scores, tags, kind, batch_first):
    gold = gold_of(kind, tags)
    weights = torch.tensor([1.0, 2.0, -3.0], dtype=torch.float64)
    emissions, *others = scores
    expected = enumerate_log_likelihood(scores, gold)
    by = torch.autograd.grad((weights * expected).sum(), scores)
    arguments = [emissions, gold, MASK]
    if batch_first:
        arguments = [x.transpose(0, 1) for x in arguments]
    padded, gold, mask = arguments
    found = log_likelihood(padded, gold, *others, mask, reduction="none", batch_first=batch_first)
    torch.testing.assert_close(found, expected)
    for mine, other in zip(torch.autograd.grad((weights * found).sum(), scores), by, strict=True):
        torch.testing.assert_close(mine, other)


def test_reductions(scores, tags):
    head = loaded(CRF(TAGS), scores)
    each = head(scores[0], tags, MASK, reduction="none")
    for reduction, count in (("sum", 1), ("mean", SIZE), ("token_mean", sum(LENGTHS))):
        torch.testing.assert_close(head(scores[0], tags, MASK, reduction), each.sum() / count)
        head.zero_grad()
        head(scores[0], tags, MASK, reduction).backward()
        mine = head.transitions.grad.clone()
        head.zero_grad()
        (head(scores[0], tags, MASK, reduction="none").sum() / count).backward()
        torch.testing.assert_close(head.transitions.grad, mine)


@pytest.mark.parametrize("head", HEADS, ids=by_name)
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_gradients_of_losses(head, reduction, scores, tags):
    gold = gold_of("partial", tags) if head in PARTIAL else tags

    def loss(emissions, *others):
        options = {"reduction": reduction, "inference": head.inference}
        return log_likelihood(emissions, gold, *others, MASK, **options)

    assert torch.autograd.gradcheck(loss, scores, fast_mode=True)


@pytest.mark.parametrize("head", HEADS, ids=by_name)
@pytest.mark.parametrize("query", [log_partition, entropy, marginals])
def test_gradients_of_queries(head, query, scores):
    def ask(*given):
        return query(*given, MASK, inference=head.inference)

    assert torch.autograd.gradcheck(ask, scores, fast_mode=True)


def test_transitions_of_each_edge(scores, tags):
    head = loaded(CRF(TAGS), scores)
    edges = torch.randn(STEPS, SIZE, TAGS, TAGS, dtype=torch.float64, requires_grad=True)
    # The scores of no edge do not count.
    with torch.no_grad():
        edges[3, 0] = edges[0, 1] = edges[2, 2] = float("nan")
    found = head.log_partition(scores[0], MASK, edges)
    w = head.potentials(scores[0], MASK, edges)
    assert w.transitions.shape == (sum(LENGTHS), TAGS, TAGS)
    np.testing.assert_allclose(found.detach(), enumeration.log_partition(w))
    edges = edges.detach().nan_to_num().requires_grad_()
    assert torch.autograd.gradcheck(
        lambda x, e: head(x, tags, MASK, "none", e), (scores[0], edges), fast_mode=True
    )
    best = [tags[0].tolist() for tags, _ in chain.nbest(w, 1)]
    assert head.decode(scores[0], MASK, edges) == best


def test_queries_are_those_of_enumeration(scores):
    head, w = loaded(CRF(TAGS), scores), ragged(scores)
    emissions = scores[0]
    unary = enumeration.marginals(w)[0]
    found = head.marginals(emissions, MASK).detach()
    np.testing.assert_allclose(found.transpose(0, 1)[MASK.T], unary)
    assert not found[~MASK].any()
    expected = [enumeration.probabilities(u, e) for _, u, e in enumeration.sequences(w)]
    logs = [-(p * np.log(p)).sum() for p in expected]
    np.testing.assert_allclose(head.entropy(emissions, MASK).detach(), logs)
    for best, (_, u, e) in zip(
        head.nbest(emissions, 5, MASK), enumeration.sequences(w), strict=True
    ):
        paths, totals = enumeration.labelings(u, e)
        order = np.argsort(-totals)[:5]
        assert [tags for tags, _ in best] == paths[order].tolist()
        np.testing.assert_allclose([score for _, score in best], totals[order])
    assert head.decode(emissions, MASK) == [b[0][0] for b in head.nbest(emissions, 1, MASK)]


def test_samples_have_the_marginals_and_a_seed(scores):
    head = loaded(CRF(TAGS), scores)
    seeded = [torch.Generator().manual_seed(1) for _ in range(2)]
    first, second = (head.sample(scores[0], 4000, MASK, generator=g) for g in seeded)
    assert (first == second).all() and first.shape == (4000, STEPS, SIZE)
    assert (first[:, ~MASK] == -100).all()
    share = torch.nn.functional.one_hot(first[:, MASK], TAGS).double().mean(0)
    assert (share - head.marginals(scores[0], MASK)[MASK]).abs().max() < 0.04


def test_span_posteriors(scores):
    head, w = loaded(CRF(TAGS), scores), ragged(scores)
    spans = chain.SpanTags(*(np.array([tag], "int32") for tag in (1, 2, 2, 1)))
    where = torch.tensor([[0, 1, 3, 0], [2, 0, 1, 0]])
    found = head.span_posteriors(scores[0], where, spans, MASK)
    parts = list(enumeration.sequences(w))
    paths, p = enumeration.labelings(*parts[0][1:])[0], enumeration.probabilities(*parts[0][1:])
    at = (paths[:, 1] == 1) & (paths[:, 2] == 2) & (paths[:, 3] != 2)
    assert found[0].item() == pytest.approx(p[at].sum())
    with pytest.raises(ValueError, match=r"spans has \[1, 0, 2, 0\] at 0"):
        head.span_posteriors(scores[0], torch.tensor([[1, 0, 2, 0]]), spans, MASK)


# Constraints


@pytest.mark.parametrize("head", HEADS, ids=by_name)
def test_constraints(head, tags):
    allowed = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1]], bool)
    constraints = chain.Constraints(allowed, np.array([1, 1, 0], bool), np.array([0, 1, 1], bool))
    options = vars(head.inference)
    constrained = type(head)(TAGS, constraints=constraints, **options)
    assert set(constrained.state_dict()) == {"transitions", "start_transitions", "end_transitions"}
    for _ in range(5):
        for labeling in constrained.decode(3 * torch.randn(5, 4, TAGS)):
            assert labeling[0] != 2 and labeling[-1] != 0
            assert all(allowed[u, v] for u, v in itertools.pairwise(labeling))
    emissions = torch.randn(2, 1, TAGS)
    constrained(emissions, torch.tensor([[0], [1]])).backward()
    assert constrained.transitions.grad.isfinite().all()
    assert not constrained.transitions.grad[torch.from_numpy(~allowed)].any()
    with pytest.raises(ValueError, match="sequence 0 has no gold labeling"):
        constrained(emissions, torch.tensor([[0], [2]]))
    with pytest.raises(ValueError, match=r"constraints.start must be bool \(3,\)"):
        CRF(TAGS, constraints=chain.Constraints(allowed, np.ones(2, bool), np.ones(3, bool)))


# PyTorch's transformations


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_scores_may_change_before_backward(reduction, scores, tags):
    head = CRF(TAGS).double()
    expected = torch.autograd.grad(head(scores[0], tags, MASK, reduction), scores[0])[0]
    hidden = scores[0] * 1
    value = head(hidden, tags, MASK, reduction)
    with torch.no_grad():
        hidden.zero_()
        head.transitions.zero_()
    torch.testing.assert_close(torch.autograd.grad(value, scores[0])[0], expected)


def test_jacobians_of_batched_weights(scores, tags):
    def losses(emissions):
        return torch.stack([head(emissions, tags, MASK) for head in (CRF(TAGS), BCRF(TAGS))])

    found, expected = [], []
    for vectorize, to in ((True, found), (False, expected)):
        torch.manual_seed(0)
        emissions = scores[0].detach().float()
        to.append(torch.autograd.functional.jacobian(losses, emissions, vectorize=vectorize))
    torch.testing.assert_close(found, expected)


def test_second_derivatives_are_refused(scores, tags):
    emissions, *others = scores

    def losses(x):
        return log_likelihood(x, tags, *others, MASK)

    def each(x):
        return (torch.arange(3.0) * log_likelihood(x, tags, *others, MASK, reduction="none")).sum()

    def of_query(x):
        return marginals(x, *others, MASK).square().sum()

    for function in (losses, each, of_query):
        (first,) = torch.autograd.grad(function(emissions), emissions, create_graph=True)
        with pytest.raises(RuntimeError, match="no second derivatives"):
            first.square().sum().backward()
        for transform in (torch.func.hessian, torch.func.jacfwd):
            with pytest.raises(RuntimeError, match="no second derivatives"):
                transform(function)(emissions.detach())
        with pytest.raises(RuntimeError, match="no second derivatives"):
            torch.func.jacrev(torch.func.grad(function))(emissions.detach())


def test_functional_transformations(scores, tags):
    head = loaded(CRF(TAGS), scores)
    parameters = {name: x.detach() for name, x in head.named_parameters()}

    def loss(parameters, emissions, tags, mask):
        given = (emissions[:, None], tags[:, None], mask[:, None])
        return torch.func.functional_call(head, parameters, given)

    per_sample = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 1, 1, 1))
    found = per_sample(parameters, scores[0].detach(), tags, MASK)
    head(scores[0], tags, MASK).backward()
    for name, parameter in head.named_parameters():
        assert found[name].shape == (SIZE, *parameter.shape)
        torch.testing.assert_close(found[name].sum(0), parameter.grad)


def test_transformations_of_other_tensors(scores, tags):
    """The scores are outside of the transformation."""
    for head in (CRF(TAGS), CRF(TAGS).requires_grad_(False)):
        head, emissions = head.double(), scores[0].detach()
        value = head(emissions, tags, MASK)

        def scale(x, head=head, emissions=emissions):
            return x * head(emissions, tags, MASK)

        some = torch.arange(2.0, dtype=torch.float64)
        torch.testing.assert_close(torch.func.vmap(scale)(some), some * value)
        torch.testing.assert_close(torch.func.grad(scale)(some[0]), value)
        torch.testing.assert_close(torch.func.jacfwd(scale)(some[0]), value)


@pytest.mark.parametrize("reduction", ["sum", "none"])
def test_compiled_models_are_one_graph(scores, tags, reduction):
    head = loaded(CRF(TAGS), scores)

    def step(emissions):
        return (3 * head(2 * emissions, tags, MASK, reduction)).sum()

    expected = step(scores[0])
    by = torch.autograd.grad(expected, scores[0])[0]
    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")(scores[0])
    torch.testing.assert_close(compiled, expected)
    torch.testing.assert_close(torch.autograd.grad(compiled, scores[0])[0], by)


@pytest.mark.parametrize("query", ["log_partition", "entropy", "marginals"])
def test_compiled_queries_are_one_graph(scores, query):
    head = loaded(CRF(TAGS), scores)

    def ask(emissions):
        return getattr(head, query)(2 * emissions, MASK).square().sum()

    compiled = torch.compile(ask, fullgraph=True, backend="aot_eager")(scores[0])
    expected = ask(scores[0])
    torch.testing.assert_close(compiled, expected)
    by = [torch.autograd.grad(x, scores[0])[0] for x in (compiled, expected)]
    torch.testing.assert_close(*by)


def test_compiled_decoding_breaks_the_graph(scores):
    head = loaded(CRF(TAGS), scores)
    compiled = torch.compile(lambda x: head.decode(2 * x, MASK), backend="aot_eager")
    assert compiled(scores[0]) == head.decode(2 * scores[0], MASK)


def test_bad_input_is_named_while_compiling():
    compiled = torch.compile(CRF(3), backend="aot_eager")
    with pytest.raises(Exception, match="expected last dimension of emissions is 3, got 4"):
        compiled(torch.zeros(3, 2, 4), torch.zeros(3, 2, dtype=torch.int64))


@pytest.mark.parametrize("kind", ["none", "mean", "log_partition", "marginals"])
@pytest.mark.parametrize("batch_first", [False, True])
def test_operators_keep_the_rules_of_pytorch(scores, tags, kind, batch_first):
    emissions, *others = (x.detach() for x in scores)
    padded = [emissions, MASK, tags]
    emissions, mask, gold = (x.transpose(0, 1) for x in padded) if batch_first else padded
    text = describe(chain.CRF())
    gold = gold if kind in ("none", "mean") else None
    asked = (emissions, *others, mask, gold, kind, text, batch_first)
    ops = torch.ops.bcrf
    rules = "test_schema", "test_faketensor"
    torch.library.opcheck(ops.query_forward.default, asked, test_utils=rules)
    value, *known = ops.query_forward(*asked)
    torch.library.opcheck(
        ops.query_backward.default, (*asked, torch.rand_like(value), known), test_utils=rules
    )
    torch.library.opcheck(
        ops.decode.default, (emissions, *others, mask, text, batch_first), test_utils=rules
    )


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_script(scores, tags):
    head = loaded(CRF(TAGS), scores)
    scripted = torch.jit.script(head)
    found = scripted(scores[0], tags, MASK)
    torch.testing.assert_close(found, head(scores[0], tags, MASK))
    assert scripted.decode(scores[0], MASK) == head.decode(scores[0], MASK)
    found.backward()
    assert scripted.transitions.grad.any()


# Memory and devices


def test_a_cpu_tensor_is_not_copied():
    from bcrf.torch.batch import as_array, as_tensor

    tensor = torch.zeros(2, 3)
    as_array(tensor)[1, 2] = 7
    assert tensor[1, 2] == 7
    array = np.zeros(2)
    as_tensor(array)[0] = 7
    assert array[0] == 7


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("batch_first", [False, True])
def test_inputs_stay_as_they_are(size, batch_first):
    head = CRF(TAGS, batch_first=batch_first)
    emissions, tags = torch.randn(size, 1, TAGS), torch.full((size, 1), -100)
    before = emissions.clone(), tags.clone()
    for mask in (None, torch.ones(size, 1, dtype=torch.bool)):
        head(emissions, tags, mask).backward()
        head.decode(emissions, mask)
    assert (emissions == before[0]).all() and (tags == before[1]).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("head", HEADS, ids=by_name)
def test_a_head_of_half_precision(head, dtype, scores, tags):
    half = type(head)(TAGS).to(dtype)
    value = half(scores[0].to(dtype), tags, MASK)
    assert value.dtype == torch.float32
    (-value).backward()
    assert half.transitions.grad.dtype == dtype
    whole = type(head)(TAGS)
    whole.load_state_dict(half.state_dict())
    torch.testing.assert_close(value, whole(scores[0].to(dtype).float(), tags, MASK))
    assert half.decode(scores[0].to(dtype), MASK) == whole.decode(scores[0].to(dtype), MASK)


def test_half_precision_becomes_float32(scores, tags):
    head = CRF(TAGS)
    for dtype in (torch.float16, torch.bfloat16):
        emissions = scores[0].detach().to(dtype).requires_grad_()
        found = head(emissions, tags, MASK)
        assert found.dtype == torch.float32
        found.backward()
        assert emissions.grad.dtype == dtype
        torch.testing.assert_close(found, head(emissions.float(), tags, MASK))


def test_spacy_is_not_imported():
    code = "import sys, bcrf.torch; print('spacy' in sys.modules, 'thinc' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["False", "False"]


# Bad input


def masks(*rows):
    return torch.tensor(rows, dtype=torch.bool).T


BAD = {
    "mask of the first timestep must all be on": {"mask": masks([0, 1, 1], [1, 1, 1])},
    "mask has a hole in sequence 1 before step 2": {"mask": masks([1, 1, 1], [1, 0, 1])},
    "tags has 3 in sequence 1 at step 0": {"tags": torch.tensor([[0, 3], [0, 0], [0, 0]])},
    "tags has -1 in sequence 0 at step 2": {"tags": torch.tensor([[0, 0], [0, 0], [-1, 0]])},
    "tags has 4294967296 in seq": {"tags": torch.tensor([[2**32, 0], [0, 0], [0, 0]])},
    "tags must be integers": {"tags": torch.zeros(3, 2)},
    "allowed tags must be": {"tags": torch.ones(3, 2, 2, dtype=torch.bool)},
    "sequence 1 has no gold labeling": {
        "tags": torch.tensor([True, False])[None, :, None].expand(3, 2, 3)
    },
    "tags must have at least 2 dimensions": {"tags": torch.zeros(6, dtype=torch.int64)},
    "the first two dimensions of emissions and mask": {"mask": torch.ones(2, 3)},
    "unary has NaN or \\+inf in sequence 1": {
        "emissions": torch.zeros(3, 2, 3).index_put_(
            (torch.tensor(2), torch.tensor(1)), torch.tensor(float("nan"))
        )
    },
    "emissions have no timestep": {
        "emissions": torch.zeros(0, 2, 3),
        "tags": torch.zeros(0, 2, dtype=torch.int64),
    },
    "invalid reduction: max": {"reduction": "max"},
    "transitions must be \\(3, 2, 3, 3\\)": {"edges": torch.zeros(2, 2, 3, 3)},
    "emissions are on cpu, mask on meta": {"mask": torch.ones(3, 2, device="meta")},
    "emissions are on cpu, tags on meta": {"tags": torch.zeros(3, 2, device="meta").long()},
    "emissions are on cpu, tags on m.ta": {"tags": torch.ones(3, 2, 3, device="meta").bool()},
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input_is_named(message):
    given = {"emissions": torch.zeros(3, 2, 3), "tags": torch.zeros(3, 2, dtype=torch.int64)}
    with pytest.raises(ValueError, match=message):
        CRF(3)(**given | BAD[message])


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64, torch.bool])
@pytest.mark.parametrize("shape", [(3, 2), (2, 5), (2, 2)])
def test_tags_of_another_shape_are_named(shape, dtype):
    shape = (*shape, 4) if dtype == torch.bool else shape
    with pytest.raises(ValueError, match="first two dimensions of emissions and tags must match"):
        CRF(4)(torch.zeros(2, 3, 4), torch.ones(shape, dtype=dtype))


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n_tags", [1, 2, 3, 4, 5, 7, 8, 9, 17])
def test_gradients_are_gold_minus_marginals(n_tags, dtype, batch_first):
    head = CRF(n_tags, batch_first=batch_first).to(dtype)
    mask = masks([1, 1, 1, 1], [1, 0, 0, 0], [1, 1, 1, 0])
    mask = mask.T if batch_first else mask
    emissions = torch.randn(*mask.shape, n_tags, dtype=dtype, requires_grad=True)
    tags = torch.randint(n_tags, mask.shape)
    head(emissions, tags, mask).backward()
    gold = torch.nn.functional.one_hot(tags, n_tags) * mask[..., None]
    expected = gold - head.marginals(emissions, mask).detach()
    torch.testing.assert_close(emissions.grad, expected, atol=1e-5, rtol=0)
    first = expected[:, 0] if batch_first else expected[0]
    torch.testing.assert_close(head.start_transitions.grad, first.sum(0), atol=1e-5, rtol=0)


@pytest.mark.parametrize("factor", [-1, 1, 2])
def test_a_graph_gives_its_gradients_again(scores, tags, factor):
    parameters = [*scores]
    loss = factor * log_likelihood(scores[0], tags, *scores[1:], MASK)
    expected = torch.autograd.grad(loss, parameters, retain_graph=True)
    expected = [x.clone() for x in expected]
    for _ in range(3):
        loss.backward(retain_graph=True)
    for x, once in zip(parameters, expected, strict=True):
        torch.testing.assert_close(x.grad, 3 * once)
        x.grad.zero_()
    loss.backward()
    for x, once in zip(parameters, expected, strict=True):
        torch.testing.assert_close(x.grad, once)
    # PyTorch has freed what the loss saved.
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


def test_mixed_dtypes_are_named(tags):
    with pytest.raises(TypeError, match=r"emissions are torch.float64, transitions torch.float32"):
        CRF(TAGS)(torch.zeros(STEPS, SIZE, TAGS).double(), tags)


def test_an_empty_batch():
    head = CRF(TAGS)
    emissions, tags = torch.zeros(5, 0, TAGS), torch.zeros(5, 0, dtype=torch.int64)
    for reduction in ("sum", "mean", "token_mean"):
        head.zero_grad()
        found = head(emissions, tags, reduction=reduction)
        found.backward()
        assert found == 0 and not head.transitions.grad.any()
    assert head(emissions, tags, reduction="none").shape == (0,)
    assert head.decode(emissions) == []
    assert head.marginals(emissions).shape == emissions.shape


def test_padding_is_not_read(scores, tags):
    head = loaded(CRF(TAGS), scores)
    expected = head(scores[0], tags, MASK)
    garbage = scores[0].detach().clone()
    garbage[~MASK] = float("nan")
    garbage.requires_grad_()
    wrong = tags.masked_fill(~MASK, 999)
    found = head(garbage, wrong, MASK.to(torch.uint8))
    assert found == expected
    found.backward()
    assert not garbage.grad[~MASK].any() and garbage.grad.isfinite().all()
    assert head.decode(garbage, MASK) == head.decode(scores[0], MASK)


# pytorch-crf's models


def test_what_a_state_dict_lacks_is_named():
    state = CRF(4).state_dict()
    head = BCRF.from_state_dict({f"crf.{name}": x.double() for name, x in state.items()}, "crf.")
    assert head.num_tags == 4 and head.transitions.dtype == torch.float64
    assert head.inference == chain.BCRF()
    with pytest.raises(ValueError, match="start_transitions is missing among crf"):
        CRF.from_state_dict({"crf.transitions": state["transitions"]}, "crf.")
    with pytest.raises(ValueError, match="_constraint_mask has no counterpart"):
        CRF.from_state_dict(state | {"_constraint_mask": torch.ones(6, 6)})


def test_a_model_of_pytorch_crf_on_real_text():
    peer = pytest.importorskip("torchcrf")
    blocks = (ROOT / "assets/sample/test.conllu").read_text("utf8").split("\n\n")[:40]
    words = [[r.split("\t")[1] for r in block.split("\n") if r[:1].isdigit()] for block in blocks]
    vocabulary = {word: i for i, word in enumerate(sorted({w for row in words for w in row}))}
    lengths = torch.tensor([len(row) for row in words])
    ids = [torch.tensor([vocabulary[word] for word in row]) for row in words]
    embed = torch.nn.Embedding(len(vocabulary), 17).double()
    other = peer.CRF(17, batch_first=True).double()
    torch.nn.init.normal_(other.transitions)
    emissions = embed(torch.nn.utils.rnn.pad_sequence(ids, batch_first=True)).detach()
    mask = torch.arange(int(lengths.max())) < lengths[:, None]
    emissions.requires_grad_()
    log_z = other._compute_normalizer(emissions.transpose(0, 1), mask.T)
    (expected,) = torch.autograd.grad(log_z.sum(), emissions)
    for dtype, atol in ((torch.float64, 1e-12), (torch.float32, 1e-6)):
        state = {name: x.to(dtype) for name, x in other.state_dict().items()}
        mine = CRF.from_state_dict(state, batch_first=True)
        x = emissions.detach().to(dtype)
        assert mine.decode(x, mask) == other.decode(emissions, mask)
        found = mine.marginals(x, mask).double()
        torch.testing.assert_close(found, expected, atol=atol, rtol=0)
