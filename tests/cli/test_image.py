"""The image of the Dockerfile: its steps in clean environments, and its server.

`make test-image` runs this test. It installs packages, and compiles the kernels.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOT_HERE = ("apt-get", "useradd")
"""Programs of steps that need root rights, and change nothing that Python sees."""

pytestmark = pytest.mark.skipif(
    not os.environ.get("BCRF_IMAGE"), reason="runs by `make test-image` alone"
)


def read_steps():
    """Return instruction and argument of each step of the Dockerfile."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    return [line.split(maxsplit=1) for line in text.replace("\\\n", " ").splitlines() if line]


class Image:
    """A folder in place of the file system of an image, with a Python for each stage."""

    def __init__(self, folder: Path, model: Path) -> None:
        self.folder, self.model = folder, model
        self.environment = dict(os.environ)
        self.n_stages = 0

    def place(self, text: str) -> str:
        """Put the absolute paths of the image below the folder."""
        return re.sub(r"(?<![\w.])/(src|wheels|model)\b", rf"{self.folder}/\1", text)

    def run(self, command: str) -> None:
        if not command.startswith(NOT_HERE):
            subprocess.run(self.place(command), shell=True, check=True, env=self.environment)

    def start_stage(self) -> None:
        self.n_stages += 1
        venv = self.folder / f"stage{self.n_stages}"
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        self.environment["PATH"] = f"{venv}/bin:{os.environ['PATH']}"
        self.environment.pop("PYTHONPATH", None)

    def copy(self, source: str, target: str) -> None:
        if source == ".":
            ignored = shutil.ignore_patterns(".git", ".venv*", "build", "dist", "training", "*.so")
            shutil.copytree(ROOT, self.place(target), ignore=ignored)
        elif source == "${MODEL}":
            shutil.copytree(self.model, self.place(target))
        else:
            assert source == "/wheels" and Path(self.place(source)).is_dir()


def test_the_steps_of_the_image_make_a_server(pipeline, tmp_path):
    image = Image(tmp_path, pipeline / "model")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command, check = [], ""
    for name, argument in read_steps():
        if name == "FROM":
            image.start_stage()
        elif name == "COPY":
            *_, source, target = argument.split()
            image.copy(source, target)
        elif name == "RUN":
            image.run(argument)
        elif name == "ENV":
            image.environment.update([argument.split("=", 1)])
        elif name == "HEALTHCHECK":
            check = argument.removeprefix("CMD ").replace("8000", str(port))
        elif name == "CMD":
            command = [image.place(word) for word in json.loads(argument)]
        else:
            assert name in ("ARG", "USER", "EXPOSE"), name
    os.chdir(tmp_path)
    command = [*command[:-1], "127.0.0.1", "--port", str(port), "--pipe", "ner"]
    with subprocess.Popen(command, env=image.environment) as server:
        try:
            for _ in range(120):
                time.sleep(0.5)
                done = subprocess.run(check, shell=True, check=False, env=image.environment)
                if done.returncode == 0 or server.poll() is not None:
                    break
            assert done.returncode == 0
        finally:
            server.terminate()
