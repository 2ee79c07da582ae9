"""Requests/s and latency of `serve` on the loopback.

    python -m benchmarks.serving MODEL

Each client sends a request as soon as it has the answer to its last one. The server has one process
and one thread of the kernels.
"""

import argparse
import asyncio
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from bcrf.io.extras import require
from benchmarks.scale import make_texts
from lab.machine import describe_machine
from lab.options import add_csv_option
from lab.tables import print_table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_csv_option(parser)
    parser.add_argument("model", type=Path, help="folder of a pipeline with the component ner")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--words", type=int, default=50, help="words of a text")
    args = parser.parse_args()
    texts = list(make_texts(500, args.words))
    port = find_port()
    command = [sys.executable, "-m", "spacy", "bcrf", "serve", str(args.model), "--port", str(port)]
    with subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"}) as server:
        try:
            rows = [
                asyncio.run(measure(f"http://127.0.0.1:{port}", texts, n, args.seconds))
                for n in args.clients
            ]
        finally:
            server.terminate()
    notes = (
        f"{describe_machine(['fastapi', 'uvicorn', 'httpx'])}\n"
        f"{args.model.name}; texts of {args.words} words; {args.seconds:g} s each"
    )
    print_table("Serving", rows, notes, args.csv)


def find_port() -> int:
    """Return a free port."""
    with socket.socket() as each:
        each.bind(("127.0.0.1", 0))
        return each.getsockname()[1]


async def measure(url: str, texts: list[str], n_clients: int, seconds: float) -> dict[str, object]:
    """Return a row of requests/s and latency."""
    httpx = require("httpx", "serve")
    latencies: list[float] = []
    async with httpx.AsyncClient(base_url=url, timeout=60) as client:
        while True:  # until the server answers
            try:
                await client.post("/annotate", json={"text": texts[0]})
                break
            except httpx.ConnectError:
                await asyncio.sleep(0.2)
        end = time.perf_counter() + seconds

        async def ask(first: int) -> None:
            i = first
            while (start := time.perf_counter()) < end:
                answer = await client.post("/annotate", json={"text": texts[i % len(texts)]})
                answer.raise_for_status()
                latencies.append(time.perf_counter() - start)
                i += n_clients

        await asyncio.gather(*map(ask, range(n_clients)))
    p50, p99 = np.percentile(latencies, [50, 99]) * 1000
    return {
        "clients": n_clients,
        "requests/s": f"{len(latencies) / seconds:,.0f}",
        "p50, ms": f"{p50:.1f}",
        "p99, ms": f"{p99:.1f}",
    }


if __name__ == "__main__":
    main()
