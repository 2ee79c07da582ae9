"""Import all registered functions, for processes that fork from one that has imported them."""

import spacy.cli.train  # noqa: F401
from spacy.util import registry

for name in registry.get_registry_names():
    getattr(registry, name).get_all()
