# The kernels have the parameters of the functions of bcrf.kernels. A test compares them.
from typing import Any

def __getattr__(name: str) -> Any: ...
