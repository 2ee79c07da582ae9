"""Mutants of the compiled kernels, and the tests that fail for them.

    python -m tests.kernels.mutants FOLDER build/objects/cpython-311/native

writes a copy of the kernels to FOLDER in which the environment variable BCRF_MUTANT switches a
mutant on, compiles it for one instruction set, links it with the objects of the last build, and
runs the named test for each mutant. A mutant that no test notices is printed as "survives".
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from bcrf import kernels

ROOT = Path(__file__).resolve().parent.parent.parent


class Mutant(NamedTuple):
    file: str
    code: str
    wrong: str
    """In place of `code`, which occurs once in the file."""
    test: str
    """A file of tests/kernels, and perhaps a test."""


# Files; names of mutants; the code, the wrong code and the test of each.
TABLE = """\
rows.hh
  Rows, sum
    return lane_sums<R>(v);
    return v;
    test_kernels.py::test_compiled_is_reference
  Rows, max
    return lane_maxima<R>(v);
    return v;
    test_kernels.py::test_compiled_is_reference
  Rows, ended
    length <= i + 1
    length <= i
    test_kernels.py::test_compiled_is_reference
lanes.hh
  Lanes, live
    one_where<R>(broadcast(R(i)) < lengths)
    one_where<R>(broadcast(R(i + 1)) < lengths)
    test_lanes.py::test_lanes_are_the_reference
  Lanes, ended
    one_where<R>(lengths <= broadcast(R(i + 1)))
    one_where<R>(lengths <= broadcast(R(i)))
    test_lanes.py::test_lanes_are_the_reference
token_layouts.hh
  TokenRows, is_last
    flag(at.token + 1 == s_->length)
    flag(at.token + 2 == s_->length)
    test_kernels.py::test_compiled_is_reference
  TokenLanes, if_inner
    return N::select(kinds(at), x, N::load(other, part));
    return x;
    test_lanes.py::test_lanes_are_the_reference
  TokenLanes, neighbours
    other + (parity == 1)
    other
    test_lanes.py::test_lanes_are_the_reference
  TokenLanes, is_token
    return one_where<R>(kinds(at) != broadcast(R(NONE)));
    return broadcast<R>(1);
    test_lanes.py::test_mean_field_in_lanes_is_the_reference
  TokenLanes, margins
    for (const size_t at : {size_t(0), W + columns_}) store(array + at, Vec<R>{});
    (void)array;
    test_lanes.py::test_mean_field_in_lanes_is_the_reference
  TokenRows, margins
    for (const size_t row : {0, s_->length + 1}) std::fill_n(array + row * width_, width_, R(0));
    (void)array;
    test_reference.py::test_mean_field
  columns of a tile of projections
    columns + columns_of(s->length) <= size_t(TOKEN_VECTORS) * W
    columns + columns_of(s->length) < size_t(TOKEN_VECTORS) * W
    test_plan.py::test_the_size_of_tiles
transition_blocks.hh
  live tags, edges
    shared_ && before >= 0
    before >= 0
    test_transition_blocks.py::test_tags_that_no_allowed_labeling_uses_are_found
  live tags, equal
    std::equal(others, others + words, alive + size_t(before) * words)
    true
    test_transition_blocks.py::test_tags_that_no_allowed_labeling_uses_are_found
  groups of blocks
    first.size() > most_groups(tags)
    first.size() > 1 + most_groups(tags)
    test_plan.py::test_blocks_of_transitions
numbers.hh
  Plain, inverse
    return R(1) / a;
    return R(1) / (a + a);
    test_kernels.py
  Plain, valid
    return a > Precision<R>::MIN_NORMAL ? one_where<R>(a < infinity<R>) : Vec<R>{};
    return one_where<R>(a < infinity<R>);
    test_lanes.py::test_a_failed_sequence_does_not_change_the_others
  Plain, lost
    return weights * Precision<R>::MIN_OVERLAP <= broadcast<R>(1) ? Vec<R>{} : broadcast<R>(1);
    return Vec<R>{};
    test_precision.py::test_min_overlap
  Plain, held
    return min<R>(f, g) > low ? one_where<R>(max<R>(f, g) < high) : Vec<R>{};
    return broadcast<R>(1);
    test_precision.py::test_a_factor_that_the_last_iteration_loses
  Plain, logarithm of a ratio
    return logarithm(a) - logarithm(b);
    return logarithm(b) - logarithm(a);
    test_kernels.py::test_compiled_is_reference
  Wide, product
    return {a.m * b.m, a.e + b.e};
    return {a.m * b.m, a.e};
    test_kernels.py::test_compiled_is_reference
  Wide, inverse root
    return {inverse_square_root<R>(a.m * power_of_two<R>(a.e - half * R(2))), -half};
    return {inverse_square_root<R>(a.m), -half};
    test_kernels.py::test_compiled_is_reference
  Wide, sum
    sum += x.m * power_of_two<R>(x.e - top);
    sum += x.m;
    test_kernels.py::test_compiled_is_reference
  Tropical, join
    return max<R>(a, b);
    return a;
    test_kernels.py::test_compiled_is_reference
forward_backward.hh
  Wide, beyond
    -lowest <= R(N::MAX_RANGE)
    lowest <= R(N::MAX_RANGE)
    test_precision.py::test_the_range_of_exponents
  emissions of a window
    for (int i = start_; i < to && again; ++i) load_emissions(i, ignored);
    (void)again;
    test_transition_blocks.py::test_long_sequences_and_threads
  product of scales
    if (i % SCALES == SCALES - 1) add_scales();
    (void)add_scales;
    test_transition_blocks.py::test_long_sequences_and_threads
outputs.hh
  edge sum
    add_sums(std::max(from, 1), to, failed)
    add_sums(std::max(from, 2), to, failed)
    test_kernels.py::test_compiled_is_reference
  edge sum of a failed window
    !any && i < size_t(tags_) * tags_
    i < size_t(tags_) * tags_
    test_lanes.py::test_edges_of_a_failed_window_count_once
  each edge
    u * tags
    size_t(u)
    test_reference.py::test_posteriors_of_a_large_range
  pair marginals
    L::IN_LANES ? k : t % W
    0
    test_reference.py::test_posterior_queries
  entropy
    sums += times_log(p) * is_inner - p_log;
    sums += times_log(p) - p_log;
    test_reference.py::test_posterior_queries
  samples
    size_t(out_.labels[here + 1]) * width_
    size_t(0)
    test_reference.py::test_posterior_queries
chunks.hh
  sums of chunks
    total[i] += sums[(p - 1) * size + i];
    total[i] += p > 1 ? sums[(p - 1) * size + i] : 0;
    test_transition_blocks.py::test_long_sequences_and_threads
plan.hh
  share of plain lanes
    return share + (sizeof(R) == 8 ? 0.1 : 0);
    return 2;
    test_plan.py::test_the_share_of_lanes_that_a_tile_must_fill
  share of wide lanes
    return shape.blocks ? std::min(share, 0.5) : share;
    return share;
    test_plan.py::test_the_share_of_lanes_that_a_tile_must_fill
  range of plain numbers
    Limits::TRIED_RANGE
    Limits::TRIED_RANGE + 1
    test_plan.py::test_the_range_of_scores_chooses_the_numbers
  tags of blocks
    batch.tags < MIN_BLOCK_TAGS
    batch.tags <= MIN_BLOCK_TAGS
    test_plan.py::test_blocks_of_transitions
  tokens that pay for pairs of tags
    size_t(shape.tags) * shape.tags / PAIRS_A_TOKEN
    size_t(shape.tags) * shape.tags / (PAIRS_A_TOKEN + 1)
    test_plan.py::test_lanes_of_projections
projections.hh
  range of projections
    range <= R(LIMIT) ? problem : broadcast<R>(OUT_OF_RANGE)
    range <= R(LIMIT * 1.1) ? problem : broadcast<R>(OUT_OF_RANGE)
    test_precision.py::test_max_range
  scores without mass
    score[k] = projection::chain_score(score[k], log_mass[k]);
    (void)log_mass;
    test_precision.py::test_scores_of_tags_without_mass \
test_reference.py::test_a_finite_mask_forbids_a_tag
transitions.hh
  negligible products
    Precision<R>::NEGLIGIBLE
    R(4)
    test_precision.py::test_negligible
products.hh
  sums in float, rows
    if (pending_ >= Precision<R>::MOST_SUMMED) flush(k, sum);
    if (pending_ >= 1000 * Precision<R>::MOST_SUMMED) flush(k, sum);
    test_precision.py::test_most_summed
  sums in float, lanes
    if (pending_ >= Precision<R>::MOST_SUMMED) flush(sum);
    if (pending_ >= 1000 * Precision<R>::MOST_SUMMED) flush(sum);
    test_precision.py::test_most_summed
"""


def read_mutants() -> Iterator[tuple[str, Mutant]]:
    """Yield the names and the mutants of the table."""
    file = name = ""
    lines: list[str] = []
    for line in TABLE.splitlines():
        if not line.startswith(" "):
            file = line
        elif not line.startswith("    "):
            name = line.strip()
        else:
            lines.append(line.strip())
            if len(lines) == 3:
                yield name, Mutant(file, *lines)
                lines.clear()


MUTANTS = dict(read_mutants())


def write(folder: Path) -> None:
    """Write the kernels with all mutants, none of which is on by default."""
    shutil.copytree(ROOT / "bcrf", folder / "bcrf", dirs_exist_ok=True)
    headers = folder / "bcrf/kernels/cpu"
    for i, (name, mutant) in enumerate(MUTANTS.items(), 1):
        path = headers / mutant.file
        text, code, wrong = path.read_text(), mutant.code, mutant.wrong
        if text.count(code) != 1:
            raise ValueError(f"{name}: {text.count(code)} places in {mutant.file}")
        on = f"bcrf::mutant == {i}"
        is_statement = code.endswith(";")
        both = (
            f"if ({on}) {{ {wrong} }} else {{ {code} }}"
            if is_statement
            else f"({on} ? ({wrong}) : ({code}))"
        )
        path.write_text(text.replace(code, both))
    path = headers / "batch.hh"
    variable = 'std::getenv("BCRF_MUTANT")'
    switch = f"inline const int mutant = {variable} ? std::atoi({variable}) : 0;"
    path.write_text(path.read_text().replace("using std::size_t;", f"using std::size_t;\n{switch}"))


def build(folder: Path, objects: Path) -> None:
    """Compile the mutants for the instruction set in use, and link them with other objects."""
    kernels_of = folder / "bcrf/kernels"
    isa = kernels.instruction_set()
    flags = ["-O2", "-std=c++17", "-fno-math-errno", "-fno-trapping-math", "-fopenmp-simd"]
    flags += [
        "-ffp-contract=fast",
        "-fPIC",
        "-pthread",
        "-Wno-psabi",
        f"-I{kernels_of}",
        f"-I{kernels_of}/cpu",
    ]
    source, made = kernels_of / f"cpu/targets/{isa}.cc", folder / f"{isa}.o"
    subprocess.run(["g++", *flags, "-c", source, "-o", made], check=True)
    # The searches of the baseline serve all instruction sets: their mutants need BCRF_ISA=baseline.
    others = [path for path in objects.rglob("*.o") if path.stem != isa]
    module = kernels_of / f"native{sysconfig.get_config_var('EXT_SUFFIX')}"
    subprocess.run(["g++", "-shared", "-pthread", *others, made, "-o", module], check=True)


def main() -> int:
    """Run the named tests of all mutants. Return how many survive."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "objects", type=Path, help="of native, such as build/objects/cpython-311/native"
    )
    parser.add_argument("--only", help="mutants whose name has this text", default="")
    parser.add_argument("--built", action="store_true", help="do not build again")
    args = parser.parse_args()
    if not args.built:
        write(args.folder)
        build(args.folder, args.objects)
    survivors = 0
    for i, (name, mutant) in enumerate(MUTANTS.items(), 1):
        if args.only not in name:
            continue
        tests = [f"tests/kernels/{test}" for test in mutant.test.split()]
        options = ["-x", "-k", "not cuda", "-p", "no:cacheprovider", "-o", "pythonpath="]
        environment = {"BCRF_MUTANT": str(i), "PYTHONPATH": str(args.folder.resolve())}
        done = subprocess.run(
            [sys.executable, "-P", "-m", "pytest", *options, *tests],
            cwd=ROOT,
            env=os.environ | environment,
            capture_output=True,
            text=True,
        )
        failed = [line for line in done.stdout.splitlines() if line.startswith("FAILED")]
        survivors += done.returncode == 0
        found = failed[0][7:] if failed else f"exit status {done.returncode}"
        print(f"{i} {name}: {found if done.returncode else 'survives'}", flush=True)
    return survivors


if __name__ == "__main__":
    sys.exit(main())
