"""PyTorch's own package index, made for a test: a proxy on this machine that answers for it, over TLS, with a wheel of a few bytes."""

from __future__ import annotations

import io
import os
import shutil
import ssl
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote, unquote

HOST = "download.pytorch.org"
WHEEL = "torch-{version}-py3-none-any.whl"


@contextmanager
def answering(folder: Path, version: str) -> Iterator[dict[str, str]]:
    """Serve torch `version` in every build; yields the settings of a process that shall find it."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate]
    extensions = (f"subjectAltName=DNS:{HOST}", "basicConstraints=critical,CA:FALSE")
    made += ["-days", "2", "-subj", f"/CN={HOST}", *(word for each in extensions for word in ("-addext", each))]
    subprocess.run(made, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    handler = type("Handler", (_Handler,), {"context": context, "version": version})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield through(server.server_port) | {"SSL_CERT_FILE": str(certificate)}
    finally:
        server.shutdown()
        server.server_close()


def through(port: int) -> dict[str, str]:
    """Return settings of a process that asks a proxy for all that it wants of the network."""
    proxy = f"http://127.0.0.1:{port}"
    return {"HTTPS_PROXY": proxy, "https_proxy": proxy, "NO_PROXY": "", "no_proxy": "", "UV_NO_CONFIG": "1"}


def uv() -> str | None:
    """Return the path of the uv that an environment or the system has."""
    return shutil.which("uv", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))


class _Handler(BaseHTTPRequestHandler):
    """The proxy's, and behind CONNECT the index's."""

    protocol_version = "HTTP/1.1"
    context: ssl.SSLContext
    version: str

    def do_CONNECT(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.connection = self.context.wrap_socket(self.connection, server_side=True)
        self.rfile, self.wfile = self.connection.makefile("rb"), self.connection.makefile("wb", 0)
        self.close_connection = False

    def do_GET(self) -> None:
        body = self._found(unquote(self.path).strip("/").split("/"))
        self.send_response(200 if body else 404)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    do_HEAD = do_GET

    def _found(self, path: list[str]) -> bytes:
        match path:
            case ["whl", build, "torch"]:
                name = WHEEL.format(version=f"{self.version}+{build}")
                return f'<!DOCTYPE html><a href="/wheels/{quote(name)}">{name}</a>'.encode()
            case ["wheels", name]:
                return _wheel(name.split("-")[1])
        return b""

    def log_message(self, *what: object) -> None:
        pass


def _wheel(version: str) -> bytes:
    made, notes = io.BytesIO(), f"torch-{version}.dist-info"
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("torch/__init__.py", f"__version__ = {version!r}\n")
        archive.writestr(f"{notes}/METADATA", f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n")
        archive.writestr(f"{notes}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{notes}/RECORD", "")
    return made.getvalue()
