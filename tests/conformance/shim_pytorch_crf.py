"""`bcrf.torch` in the place of `torchcrf`."""

import sys

import bcrf.torch

sys.modules["torchcrf"] = bcrf.torch
