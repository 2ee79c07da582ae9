"""What Python finds in place of the compiled kernels: in a source folder without a build."""

from pathlib import Path
from typing import NoReturn


def refuse() -> NoReturn:
    """Raise ImportError, which says what to do."""
    folder = Path(__file__).parents[2]
    raise ImportError(
        f"{folder} has bcrf without compiled kernels. Run `pip install .` in it, or start Python "
        "in another folder to use an installed bcrf"
    )
