"""Suites of libraries of PyTorch and JAX."""

from tests.conformance.suites import Suite

SUITES = [
    Suite(
        "pytorch-crf",
        "bcrf.torch.CRF",
        ("tests/test_crf.py",),
        plugin="shim_pytorch_crf",
        needs=("torch", "packaging"),
    ),
    Suite(
        "allennlp",
        "bcrf.torch.CRF",
        ("tests/modules/conditional_random_field_test.py",),
        plugin="shim_allennlp",
        needs=("torch",),
        not_applicable={
            r".*Field::test_allowed_transitions": "names of tags: ours are `annotation.schemes`",
            r".*\.TestConditionalRandomFieldWeight": "weights of classes: our losses have none",
        },
    ),
    Suite(
        "torch-struct",
        "bcrf.torch.CRF",
        # The other cases test other structures, and semirings of torch-struct's own.
        tuple(f"tests/test_distributions.py::test_{name}" for name in ("simple", "autoregressive")),
        plugin="shim_torch_struct",
        needs=("torch", "torch_struct", "hypothesis"),
        not_applicable={
            r".*::test_simple": "its last check is of torch-struct's own `kl`, with a tolerance "
            "below the rounding of float32; the checks before pass",
        },
    ),
    Suite(
        "synjax",
        "bcrf.chain",
        ("synjax/_src/linear_chain_crf_test.py",),
        plugin="shim_synjax",
        needs=("jax", "equinox", "absl"),
        not_applicable={
            r".*(can_be_jitted|differentiable_sample)": "transformations of JAX: ours takes NumPy",
            r".*sequential_same_as_parallel": "the kernels choose their algorithm themselves",
        },
    ),
]
