"""`spacy-bcrf.CheckVersions.v1`: a packaged pipeline names the versions that it needs."""

import warnings
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version

from packaging.requirements import Requirement
from spacy.language import Language


def make_callback() -> Callable[[Language], Language]:
    """Return the callback `after_creation` of a config, see `check_versions`."""
    return check_versions


def check_versions(nlp: Language) -> Language:
    """Warn of requirements in a pipeline's meta data that the environment lacks, and return it."""
    for text in nlp.meta.get("requirements", ()):
        required = Requirement(text)
        try:
            found = version(required.name)
        except PackageNotFoundError:
            found = ""
        if not (found and required.specifier.contains(found, prereleases=True)):
            name = f"{nlp.meta['lang']}_{nlp.meta['name']} {nlp.meta['version']}"
            warnings.warn(
                f"{name} needs {text}, but {found or 'none'} is installed; install that version, "
                f"or a version of {name.split()[0]} for it",
                stacklevel=2,
            )
    return nlp
