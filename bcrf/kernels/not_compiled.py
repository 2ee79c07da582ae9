"""What Python finds in place of the compiled kernels: in a source folder without a build."""

from pathlib import Path

raise ImportError(
    f"{Path(__file__).parents[2]} has bcrf without compiled kernels. Run `pip install .` in it, or "
    "start Python in another folder to use an installed bcrf"
)
