"""A proxy in front of a server, which fails now and then as networks and object storage do."""

import http.client
import itertools
import threading
import time
from collections import Counter
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

FAULTS = ("error", "lost before", "lost after", "cut short", "silent")
"""A 500, a connection lost before or after the server did what was asked, or in the middle of the answer; no answer."""

ERROR = b"<?xml version='1.0'?><Error><Code>InternalError</Code><Message>We met an error inside.</Message></Error>"


class Proxy(ThreadingHTTPServer):
    """Forwards to a port of loopback; of `every` requests one fails, in another way each time, and all are late."""

    daemon_threads = True

    def __init__(self, port: int, every: int, late: float = 0.0, silence: float = 2.0) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.port, self.every, self.late, self.silence = port, every, late, silence
        self.failed: Counter[str] = Counter()
        self._numbers, self._faults, self._lock = itertools.count(1), itertools.cycle(FAULTS), threading.Lock()

    def __enter__(self) -> "Proxy":
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def fault(self) -> str:
        """What happens to the next request; an empty string is nothing."""
        with self._lock:
            fault = next(self._faults) if next(self._numbers) % self.every == 0 else ""
            self.failed[fault or "answered"] += 1
        return fault

    def handle_error(self, *_: object) -> None:
        """Clients that hang up are expected here."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Proxy

    def _forward(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = self.server.fault()
        time.sleep(self.server.silence if fault == "silent" else self.server.late)
        if fault in ("lost before", "silent"):
            return self._hang_up()
        if fault == "error":
            return self._answer(500, [("Content-Type", "application/xml")], ERROR)
        status, headers, content = self._ask(body)
        if fault == "lost after":
            return self._hang_up()
        return self._answer(status, headers, content, cut=fault == "cut short")

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _forward

    def _ask(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        upstream = http.client.HTTPConnection("127.0.0.1", self.server.port)
        upstream.request(self.command, self.path, body or None, dict(self.headers.items()))
        answer = upstream.getresponse()
        found = answer.status, answer.getheaders(), answer.read()
        upstream.close()
        return found

    def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes, cut: bool = False) -> None:
        head = self.command == "HEAD"
        kept = [(k, v) for k, v in headers if k.lower() not in ("connection", "transfer-encoding", "content-length")]
        length = next((v for k, v in headers if k.lower() == "content-length"), "0") if head else str(len(content))
        self.send_response_only(status)
        for key, value in [*kept, ("Content-Length", length)]:
            self.send_header(key, value)
        self.end_headers()
        if not head:
            self.wfile.write(content[: len(content) // 2] if cut else content)
        if cut:
            self._hang_up()

    def _hang_up(self) -> None:
        self.close_connection = True
        with suppress(OSError):
            self.connection.shutdown(2)
