"""What benchmarks and experiments share: corpora, tasks, training, tables and figures."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
"""The clone."""
