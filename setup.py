"""Build of the compiled extensions, and README for PyPI. setup.cfg holds all other metadata."""

import configparser
import gzip
import os
import re
import shlex
import shutil
import sys
import tarfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.sdist import sdist
from setuptools.errors import CompileError, PlatformError

# No -march=native: a wheel must run on any processor, so it contains the kernels for several
# instruction sets (cpu/targets). No -ffast-math: the kernels rely on infinities. GCC fuses products
# and sums by default, Clang within an expression only.
optimize_args = [
    *("-O3", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast"),
    "-fopenmp-simd",  # for loops that ask for vectors, see BCRF_VECTORIZE
]
# The kernels of native write out their vectors. Vectorizing loops that do not ask for it takes a
# tenth of the compiler's time and makes none faster.
native_args = ["-fno-tree-vectorize"]
if sys.platform == "win32":
    # Templates that Clang parses late, as MSVC does, lose the instruction set of cpu/targets.
    compile_args = ["/std:c++17", "/EHsc", "/utf-8", "-fno-delayed-template-parsing"]
    compile_args += [f"/clang:{argument}" for argument in optimize_args]
    native_args = [f"/clang:{argument}" for argument in native_args]
    link_args = []
else:
    compile_args = [*optimize_args, "-std=c++17", "-pthread"]
    # GCC warns of vectors as arguments, but all functions that have some are inlined.
    compile_args += ["-Wno-psabi"] if sys.platform.startswith("linux") else []
    # Python's own flags contain -g, and debug information triples the size of the extensions.
    # Flags of the environment come last, so that they win.
    flags = shlex.split(os.environ.get("CFLAGS", ""))
    # Python needs one name of an extension. Names of all functions take a quarter of its bytes.
    compile_args += ["-fvisibility=hidden", "-g0", *flags]
    link_args = ["-pthread"]
    if sys.platform.startswith("linux") and "-g" not in flags:
        link_args.append("-Wl,--strip-all")

folder = Path("bcrf/kernels")
sources = sorted(map(str, folder.glob("cpu/targets/*.cc")))
# Files of Cython without loops that take time. sparse.cpp has the learner's.
WRAPPERS = {"native.cpp", "encoder.cpp"}
tables = {"native": "cpu", "sparse": "cpu/sparse", "encoder": "cpu/encoder"}


def find_headers(name: str) -> list[str]:
    """Return the headers of an extension: all but those in the folders of the others."""
    shared = {folder, folder / "shared", folder / "cpu", folder / tables[name]}
    if name == "encoder":
        shared.add(folder / "cpu" / "sparse")  # distinct_rows.hh
    files = [*folder.glob("**/*.hh"), *folder.glob("*.pxd")]
    return sorted(str(path) for path in files if path.parent in shared)


extensions = [
    Extension(
        f"bcrf.kernels.{name}",
        [str(folder / f"{name}.pyx"), *sources],
        # The sources include the shared_code.hh and table.hh of the extension.
        include_dirs=[str(folder), str(folder / path)],
        depends=find_headers(name),
        language="c++",
        extra_compile_args=compile_args + native_args * (name == "native"),
        extra_link_args=link_args,
    )
    for name, path in tables.items()
]


NO_COMPILER = """
spacy-bcrf compiles kernels in C++17. If there is no compiler or no Python.h, install both:
  Debian, Ubuntu   apt-get install g++ python3-dev
  Fedora           dnf install gcc-c++ python3-devel
  Alpine           apk add g++ python3-dev
  macOS            xcode-select --install
  Windows          Visual Studio Build Tools with "Desktop development with C++" and, under its
                   individual components, "C++ Clang Compiler for Windows"
The environment variable CXX names another compiler, such as clang++."""


def find_clang_cl(msvc: str) -> str:
    """Return the path of clang-cl, given the path of MSVC's cl.exe, or the compiler that CXX names.

    MSVC itself has no vector extensions. clang-cl takes its options, headers and libraries.
    """
    # cl.exe is in VC/Tools/MSVC/VERSION/bin/HOST/TARGET.
    tools = Path(msvc).parents[5]
    folders = [tools / "Llvm/x64/bin", Path(os.environ.get("PROGRAMFILES", "")) / "LLVM/bin"]
    path = os.pathsep.join([os.environ["PATH"], *map(str, folders)])
    name = os.environ.get("CXX", "clang-cl")
    if (found := shutil.which(name, path=path)) is None:
        raise PlatformError(f"there is no compiler {name}")
    return found


def tell(text: str) -> None:
    """Print a line, and show it on the terminal too if pip hides the output."""
    print(text, flush=True)
    if not sys.stdout.isatty():
        with suppress(OSError), Path("/dev/tty").open("w") as terminal:
            terminal.write(f"{text}\n")


class ParallelBuild(build_ext):
    """Compile the changed source files of all extensions in parallel.

    The environment variable BCRF_OBJECTS names a folder of object files that several builds share:
    with it, a wheel from the source distribution takes the object files of the editable
    installation.
    """

    def finalize_options(self) -> None:
        if objects := os.environ.get("BCRF_OBJECTS"):
            self.build_temp = f"{objects}/{sys.implementation.cache_tag}"
        super().finalize_options()

    def run(self) -> None:
        # Here, since a source distribution needs no C++ files.
        made = {each.name: each.sources for each in cythonize(self.extensions, language_level=3)}
        for extension in self.extensions:
            extension.sources = made[extension.name]
        try:
            super().run()
        except (CompileError, PlatformError) as error:
            raise CompileError(f"{error}\n{NO_COMPILER}") from error
        # In the clone, its package comes before the installed one. Other folders than the default
        # have modules for other uses, such as those with sanitizers.
        if not self.inplace and Path(self.build_lib).name.startswith("lib"):
            with suppress(OSError):
                self.copy_extensions_to_source()

    def build_extensions(self) -> None:
        self.parallel = True
        if sys.platform == "win32":
            self.compiler.initialize()
            self.compiler.cc = find_clang_cl(self.compiler.cc)
        compile_files = self.compiler.compile

        def compile_file(
            source: str, output_dir: str, depends: list[str], **options: Any
        ) -> list[str]:
            objects = self.compiler.object_filenames([source], output_dir=output_dir)
            # Not by time: a wheel from the source distribution generates equal files anew.
            digest = sha256(repr(options["extra_postargs"]).encode())
            for path in (source, "setup.py", *depends):
                digest.update(Path(path).read_bytes())
            compiled = Path(f"{objects[0]}.sha256")
            is_current = compiled.exists() and compiled.read_text() == digest.hexdigest()
            if self.force or not is_current or not Path(objects[0]).exists():
                tell(f"spacy-bcrf: compiling {source} ({Path(output_dir).name})")
                compiled.unlink(missing_ok=True)
                if Path(source).name in WRAPPERS:
                    options["extra_postargs"] = [x.replace("-O3", "-O1") for x in compile_args]
                compile_files([source], output_dir=output_dir, **options)
                compiled.write_text(digest.hexdigest())
            # The linker skips objects that are older than a library made from others.
            Path(objects[0]).touch()
            return objects

        with ThreadPoolExecutor(os.cpu_count()) as pool:

            def compile_each(sources: list[str], output_dir: str, **options: Any) -> list[str]:
                # Extensions share sources, but not objects. Each has one generated file.
                (name,) = (Path(source).stem for source in sources if source.endswith(".cpp"))
                output_dir = f"{output_dir}/{name}"
                found = pool.map(partial(compile_file, output_dir=output_dir, **options), sources)
                return list(chain.from_iterable(found))

            self.compiler.compile = compile_each
            super().build_extensions()


class ReproducibleArchive(sdist):
    """Write an archive of names, contents and executable bits alone.

    All files have the time of the environment variable SOURCE_DATE_EPOCH, in seconds, by default 0.
    """

    def make_archive(
        self, base_name: str, format: str, root_dir: str | None = None, base_dir: str = "", **_: Any
    ) -> str:
        if format != "gztar":
            raise PlatformError(f"a source distribution is a gztar file, not {format}")
        path = Path(f"{base_name}.tar.gz")
        path.parent.mkdir(parents=True, exist_ok=True)
        seconds = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))

        def strip(member: tarfile.TarInfo) -> tarfile.TarInfo:
            member.mtime, member.uid, member.gid, member.uname, member.gname = seconds, 0, 0, "", ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            return member

        # The header of gzip has a name and a time too.
        with (
            path.open("wb") as file,
            gzip.GzipFile("", "wb", fileobj=file, mtime=seconds) as packed,
            tarfile.open(fileobj=packed, mode="w") as archive,
        ):
            archive.add(Path(root_dir or "", base_dir), base_dir, filter=strip)
        return str(path)


def absolute_links(text: str, source: str | None, version: str) -> str:
    """Replace the relative links of a Markdown file, which PyPI cannot resolve.

    source: address of the repository, whose tag of the version has the targets. Without an address,
    pictures are left out, and links become their text.
    """

    def replace(found: re.Match) -> str:
        is_picture, label, target = found.groups()
        if source is None:
            return "" if is_picture else label
        kind = "raw" if is_picture else "blob"
        return f"{is_picture}[{label}]({source.rstrip('/')}/{kind}/v{version}/{target})"

    return re.sub(r"(!?)\[([^\]]*)\]\((?!https?:|#)([^)]*)\)", replace, text)


def read_description() -> str:
    """Return README.md with absolute links."""
    config = configparser.ConfigParser()
    config.read("setup.cfg", encoding="utf-8")
    urls = config["metadata"].get("project_urls", "").strip().splitlines()
    named = dict(re.split(r"\s*=\s*", url, maxsplit=1) for url in urls)
    found = re.search('__version__ = "(.*)"', Path("bcrf/__init__.py").read_text("utf-8"))
    assert found is not None
    return absolute_links(Path("README.md").read_text("utf-8"), named.get("Source"), found[1])


# Tests read this file without a build.
if __name__ == "__main__":
    setup(
        ext_modules=extensions,
        cmdclass={"build_ext": ParallelBuild, "sdist": ReproducibleArchive},
        long_description=read_description(),
    )
