"""Suites of PyTorch libraries."""

from tests.conformance.suites import Suite

SUITES = [
    Suite(
        "pytorch-crf",
        "spacy_bcrf.torch.CRF",
        ("tests/test_crf.py",),
        plugin="shim_pytorch_crf",
        needs=("torch", "packaging"),
    ),
]
