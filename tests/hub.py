"""A stand-in of the Hugging Face hub."""

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Hub(BaseHTTPRequestHandler):
    """The calls of the hub's API that a push makes. `files` gets the committed files."""

    files: dict[str, bytes]

    def do_GET(self) -> None:
        self.answer({"name": "ann", "type": "user"})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path.endswith("/commit/main"):
            entries = [json.loads(line) for line in body.splitlines()]
            committed = [entry["value"] for entry in entries if entry["key"] == "file"]
            self.files.update((f["path"], base64.b64decode(f["content"])) for f in committed)
        asked = json.loads(body)["files"] if self.path.endswith("/preupload/main") else []
        files = [{"path": f["path"], "uploadMode": "regular", "shouldIgnore": False} for f in asked]
        url = f"http://{self.headers['Host']}/ann/model"
        self.answer({"url": url, "files": files, "commitUrl": f"{url}/commit/1", "commitOid": "1"})

    def answer(self, fields: dict) -> None:
        data = json.dumps(fields).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *arguments: object) -> None:
        """Print nothing."""


@contextmanager
def run_hub() -> Iterator[tuple[str, dict[str, bytes]]]:
    """Run a stand-in. Yields its address, and the files that it gets."""
    files: dict[str, bytes] = {}
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("WithFiles", (Hub,), {"files": files}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", files
    finally:
        server.shutdown()
        server.server_close()
