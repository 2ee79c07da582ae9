"""`bcrf_ner` and `bcrf_tagger` in the place of spaCy's `ner` and `tagger`."""

from typing import Any

from spacy.language import Language
from thinc.api import Config

from spacy_bcrf.training.migrate import REPLACEMENTS, migrate_config

_create_pipe = Language.create_pipe


def create_pipe(
    nlp: Language, factory_name: str, name: str | None = None, *, config: Any = None, **options: Any
) -> Any:
    """Create our component where a test asks for spaCy's, with its tok2vec and options."""
    config = {} if config is None else config
    if factory_name not in ("ner", "tagger") or not isinstance(config, dict):
        return _create_pipe(nlp, factory_name, name, config=config, **options)
    name = name or factory_name
    if "spacy-bcrf" not in str(config.get("model")):  # else it is a saved pipeline
        filled = Config(nlp.get_factory_meta(factory_name).default_config).merge(config)
        pipe = {"factory": factory_name, **filled}
        whole = Config({"nlp": {"pipeline": [name]}, "components": {name: pipe}})
        config = migrate_config(whole, "spacy-bcrf.CRF.v1")[0]["components"][name]
        del config["factory"]
        options.pop("raw_config", None)
    made = _create_pipe(nlp, REPLACEMENTS[factory_name], name, config=config, **options)
    nlp._pipe_configs[name]["factory"] = factory_name
    return made


Language.create_pipe = create_pipe  # type: ignore[method-assign]
