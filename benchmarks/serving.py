"""Requests/s and latency of `serve` on the loopback, by wrk, with connections that stay open.

    python -m benchmarks.serving MODEL

The server has one process and one thread of the kernels. Processor time tells how many requests
one core answers, also if other load takes a part of it.
"""

import argparse
import json
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import urlopen

from benchmarks.scale import make_texts
from lab.machine import describe_machine
from lab.options import add_csv_option
from lab.tables import print_table

SCRIPT = """
local i = 0
wrk.method = "POST"
request = function()
  i = i % #bodies + 1
  return wrk.format(nil, "/annotate", nil, bodies[i])
end
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_csv_option(parser)
    parser.add_argument("model", type=Path, help="folder of a pipeline with the component ner")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 16, 64])
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--words", type=int, default=50, help="words of a text")
    args = parser.parse_args()
    bodies = [json.dumps({"text": text}) for text in make_texts(500, args.words)]
    script = f"bodies = {{{','.join(f'[==[{body}]==]' for body in bodies)}}}{SCRIPT}"
    port = find_port()
    command = [sys.executable, "-m", "spacy", "bcrf", "serve", str(args.model), "--port", str(port)]
    with subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"}) as server:
        try:
            rows = [measure(server.pid, port, script, n, args.seconds) for n in args.clients]
        finally:
            server.terminate()
    notes = (
        f"{describe_machine(['fastapi', 'uvicorn', 'httptools', 'uvloop'])}\n"
        f"{args.model.name}; texts of {args.words} words; {args.seconds} s each"
    )
    print_table("Serving", rows, notes, args.csv)


def find_port() -> int:
    """Return a free port."""
    with socket.socket() as each:
        each.bind(("127.0.0.1", 0))
        return each.getsockname()[1]


def cpu_seconds(pid: int) -> float:
    """Return the processor time of a process (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid: int) -> int:
    """Return the bytes of memory of a process (Linux)."""
    pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def measure(pid: int, port: int, script: str, n_clients: int, seconds: int) -> dict[str, object]:
    """Return a row of requests/s, latency, processor time and memory, after a second of warm-up."""
    url = f"http://127.0.0.1:{port}"
    while True:  # until the server answers
        try:
            urlopen(f"{url}/healthz").close()
            break
        except OSError:
            time.sleep(0.2)
    command = ["wrk", "-t1", f"-c{n_clients}", "--latency", "-s", "/dev/stdin", url]
    for each in (1, seconds):
        start = cpu_seconds(pid)
        done = subprocess.run(
            [*command, f"-d{each}"], input=script, capture_output=True, text=True, check=True
        )
    (n,) = re.findall(r"(\d+) requests in", done.stdout)
    p50, p99 = re.findall(r"(?:50|99)% +(\S+)", done.stdout)
    failed = re.findall(r"Non-2xx or 3xx responses: (\d+)", done.stdout)
    return {
        "clients": n_clients,
        "requests/s": f"{int(n) / seconds:,.0f}",
        "p50": p50,
        "p99": p99,
        "CPU, us/request": f"{(cpu_seconds(pid) - start) / int(n) * 1e6:.0f}",
        "MiB": memory(pid) >> 20,
        "failed": ", ".join(failed) or 0,
    }


if __name__ == "__main__":
    main()
