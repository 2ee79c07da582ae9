"""The pipelines that ship: `make models` builds their wheels."""
