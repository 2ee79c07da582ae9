"""MkDocs hook and command: the demo as one HTML file, which has JavaScript and models inside.

    python docs/theme/demo.py OUTPUT [MODEL.bcrf.gz ...]

The site gets the models of docs/demo.
"""

import base64
import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "js/src"
DEMO = ROOT / "docs/demo"
EXAMPLES = {
    "en_bcrf_address": "1060 West Addison Street, Apt 4B, Chicago, IL 60613",
    "en_bcrf_pii": "Hello, this is Maria Gonzalez from Lyon. Call me back on +33 4 72 00 11 22 "
    "or write to m.gonzalez@example.org. My card 4111 1111 1111 1111 was charged twice. Thank you, "
    "Maria",
}
_IMPORT = re.compile(r'^(import|export) \{([^}]*)\} from "\./(\w+)\.js";\n', re.M)
_LATER = re.compile(r'await import\("\./(\w+)\.js"\)')
_EXPORT = re.compile(r"^export (?=(?:async )?(?:const|function|class) (\w+))", re.M)


def bundle() -> str:
    """Return all modules of js/src as one script, which sets `bcrf`. Each one is a function."""
    done: dict[str, str] = {}
    exported_by: dict[str, set[str]] = {}

    def add(name: str) -> None:
        source = (SOURCES / f"{name}.js").read_text("utf8")
        names: list[str] = _EXPORT.findall(source)

        def translate(match: re.Match[str]) -> str:
            kind, list_, module = match.groups()
            if module not in done:
                add(module)
            for each in list_.split(","):
                assert each.split(" as ")[0].strip() in exported_by[module], (name, each)
            if kind == "export":
                names.extend(list_.split())
            return f"const {{{list_.replace(' as ', ': ')}}} = {module}_js;\n"

        def translate_later(match: re.Match[str]) -> str:
            add(match[1])
            return f"{match[1]}_js"

        # A name that the module imports and exports is declared once.
        source = _IMPORT.sub(translate, _drop_doubles(source, names))
        source = _LATER.sub(translate_later, source)
        source = re.sub(r"^export (?=async|const|function|class)", "", source, flags=re.M)
        exported_by[name] = {each.strip(",") for each in names}
        exported = ", ".join(sorted(exported_by[name]))
        done[name] = f"const {name}_js = (() => {{\n{source}return {{ {exported} }};\n}})();\n"

    add("index")
    return "".join(done.values()) + "const bcrf = index_js;\n"


def _drop_doubles(source: str, names: list[str]) -> str:
    imported = {
        name.split(" as ")[0].strip()
        for kind, list_, _ in _IMPORT.findall(source)
        if kind == "import"
        for name in list_.split(",")
    }

    def keep(match: re.Match[str]) -> str:
        kind, list_, _ = match.groups()
        own = [name.strip() for name in list_.split(",")]
        if kind == "import" or not imported.issuperset(own):
            return match[0]
        names.extend(own)
        return ""

    return _IMPORT.sub(keep, source)


def make_page(models: Iterable[Path]) -> str:
    """Return the page. models: files of `export`."""
    found = []
    for path in models:
        name = path.name.removesuffix(".gz").removesuffix(".bcrf")
        data = base64.b64encode(path.read_bytes()).decode()
        found.append({"name": name, "example": EXAMPLES.get(name, ""), "data": data})
    page = (DEMO / "page.html").read_text("utf8")
    # A closing tag would end the script.
    parts = {"/*MODELS*/": json.dumps(found), "/*BUNDLE*/": bundle().replace("</", "<\\/")}
    for place, text in parts.items():
        page = page.replace(place, text)
    return page


def on_post_build(config: Any, **_: Any) -> None:
    folder = Path(config.site_dir, "demo")
    folder.mkdir(exist_ok=True)
    for path in folder.glob("*.bcrf.gz"):
        path.unlink()
    (folder / "page.html").unlink(missing_ok=True)
    (folder / "index.html").write_text(make_page(sorted(DEMO.glob("*.bcrf.gz"))), "utf8")


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(make_page(map(Path, sys.argv[2:])), "utf8")
