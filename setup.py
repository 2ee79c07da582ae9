"""Builds the compiled extensions; everything else is said in setup.cfg."""

import sys

from Cython.Build import cythonize
from setuptools import Extension, setup

if sys.platform == "win32":
    compile_args, link_args = ["/O2", "/std:c++17"], []
else:
    # No -march=native: a wheel must run anywhere. The kernels carry AVX2 and AVX-512 clones of
    # themselves instead (cpu/targets.hh). They rely on infinities, hence no -ffast-math.
    compile_args = ["-O3", "-std=c++17", "-fno-math-errno", "-fno-trapping-math", "-pthread"]
    link_args = ["-pthread"]

extensions = [
    Extension(
        f"spacy_bcrf.kernels.{name}",
        [f"spacy_bcrf/kernels/{name}.pyx"],
        include_dirs=["spacy_bcrf/kernels"],
        language="c++",
        extra_compile_args=compile_args,
        extra_link_args=link_args,
    )
    for name in ("native", "sparse")
]

setup(ext_modules=cythonize(extensions, language_level=3))
