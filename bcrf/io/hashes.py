"""Hashes of files."""

import hashlib
from pathlib import Path


def hash_files(*paths: Path) -> str:
    """Return the SHA-256 of files, and of all files of folders, their names and sizes."""
    found = hashlib.sha256()
    for path in paths:
        files = sorted(f for f in path.rglob("*") if f.is_file()) if path.is_dir() else [path]
        for file in files:
            name = file.relative_to(path)
            if "__pycache__" not in name.parts:
                found.update(f"{name}\0{file.stat().st_size}\0".encode())
                with file.open("rb") as stream:
                    while block := stream.read(1 << 20):
                        found.update(block)
    return found.hexdigest()
