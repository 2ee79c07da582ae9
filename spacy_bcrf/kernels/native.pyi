# The kernels have the signatures of backend.Backend. A test compares them.
from typing import Any

def __getattr__(name: str) -> Any: ...
