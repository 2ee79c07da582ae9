"""`spacy_bcrf.torch` in the place of `torchcrf`."""

import sys

import spacy_bcrf.torch

sys.modules["torchcrf"] = spacy_bcrf.torch
