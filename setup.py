"""Build of the compiled extensions. setup.cfg holds all other metadata."""

import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

if sys.platform == "win32":
    compile_args, link_args = ["/O2", "/std:c++17"], []
else:
    # No -march=native: a wheel must run on any processor, so it contains the kernels for several
    # instruction sets (cpu/targets.hh). No -ffast-math: the kernels rely on infinities.
    compile_args = ["-O3", "-std=c++17", "-fno-math-errno", "-fno-trapping-math", "-pthread"]
    link_args = ["-pthread"]

headers = sorted(map(str, Path("spacy_bcrf/kernels").glob("**/*.hh")))
extensions = [
    Extension(
        f"spacy_bcrf.kernels.{name}",
        [f"spacy_bcrf/kernels/{name}.pyx"],
        include_dirs=["spacy_bcrf/kernels"],
        depends=headers,
        language="c++",
        extra_compile_args=compile_args,
        extra_link_args=link_args,
    )
    for name in ("native", "sparse", "encoder")
]

setup(ext_modules=cythonize(extensions, language_level=3))
