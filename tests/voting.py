"""A server of `comparo vote` in a process of its own, and judges who use it by HTTP."""

from __future__ import annotations

import base64
import csv
import http.client
import io
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from processes import Forked

JUDGES = ("--for", "ana,bo,cy")
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
STATE = re.compile(r'data-votes="(\d+)" data-last="(\d*)"(?: data-ballot="(\d+)" data-turn="(\d+)")?')
PATIENCE = 60  # seconds
LOST = (OSError, ValueError, http.client.HTTPException)  # what a client meets when a server is killed while it answers


def essays(folder, size=12):
    """A folder of texts, each of which names its number."""
    folder.mkdir(exist_ok=True)
    for number in range(size):
        (folder / f"e{number:02}.txt").write_text(f"Essay number {number}.\nIt argues {'well ' * number}.")
    return folder


def ask(port, method, path, message=None, headers=None):
    """The status, headers and text of an answer; `message` is sent as JSON unless it is bytes."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        sent = {"Content-Type": "application/json"} if message is not None else {}
        body = message if isinstance(message, bytes) else None if message is None else json.dumps(message)
        connection.request(method, path, body, {**sent, **(headers or {})})
        answer = connection.getresponse()
        return answer.status, dict(answer.headers), answer.read().decode()
    finally:
        connection.close()


class Proxy:
    """A reverse proxy that takes a prefix off the path, rewrites Host, and appends to X-Forwarded-For."""

    def __init__(self, port, prefix):
        proxy = self

        class Passing(BaseHTTPRequestHandler):
            def do_GET(self):
                if not self.path.startswith(f"{prefix}/"):
                    self.send_error(404)
                    return
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                headers = {name: value for name, value in self.headers.items() if name.lower() != "content-length"}
                before = [headers.pop("X-Forwarded-For")] if "X-Forwarded-For" in headers else []
                headers |= {"Host": "backend", "X-Forwarded-For": ", ".join([*before, proxy.client])}
                found, given, text = ask(port, self.command, self.path.removeprefix(prefix), body or None, headers)
                self.send_response(found)
                for name, value in given.items():
                    if name.lower() in ("content-type", "location"):
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(text.encode())))
                self.end_headers()
                self.wfile.write(text.encode())

            do_POST = do_GET  # noqa: N815

            def log_message(self, *_):
                pass

        self.client = "203.0.113.7"
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Passing)
        self.port = self.server.server_port
        self.thread = Thread(target=self.server.serve_forever)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def request(self, method, path, message=None, headers=None):
        """The status, headers and text of an answer to a browser that was given the public address."""
        return ask(self.port, method, path, message, {"Host": "votes.example", **(headers or {})})


class Server:
    """`comparo vote` on a folder of texts; started by `with`, and ended by Ctrl-C unless it was killed."""

    def __init__(self, data, out, *flags):
        self.out = Path(out)
        flags = flags or JUDGES
        arguments = ["vote", str(data), "--criterion", "better argued", "--no-browser", "--out", str(out), *flags]
        self.command = [sys.executable, "-m", "comparo.cli", *arguments]

    def __enter__(self):
        self.process = Forked(self.command, env=dict(os.environ), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise AssertionError(f"the server ended: {self.process.communicate()}")
            try:  # the port may have been another server's since the last start
                if self.request("GET", f"{self.organiser}/page.css")[0] == 200:
                    return self
            except LOST:
                pass
            time.sleep(0.01)
        raise AssertionError("the server did not start")

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.stop()

    def stop(self):
        """End the server by Ctrl-C; what it printed."""
        self.process.send_signal(signal.SIGINT)
        return self.process.communicate()

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        return self.process.communicate()

    def links(self):
        return json.loads((self.out / "links.json").read_text())

    @property
    def port(self):
        return self.links()["port"]

    def request(self, method, path, message=None, headers=None):
        """The status, headers and text of an answer; `message` is sent as JSON unless it is bytes."""
        return ask(self.port, method, path, message, headers)

    def voter(self, name):
        return Voter(self, f"/vote/{self.links()['judges'][name]}")

    @property
    def organiser(self):
        return f"/organiser/{self.links()['organiser']}"

    def live(self):
        """What the organiser's page says now."""
        return json.loads(self.request("GET", f"{self.organiser}/live")[2])["html"]

    def table(self, name):
        """A table that the organiser can save, as text and as rows."""
        text = self.request("GET", f"{self.organiser}/{name}.csv")[2]
        return text, list(csv.DictReader(io.StringIO(text)))

    def join(self, name, headers=None):
        """The status, and the path or the error, of an attempt to join by the invitation."""
        path = f"/join/{self.links()['invitation']}/name"
        status, _, text = self.request("POST", path, {"name": name}, headers)
        return status, next(iter(json.loads(text).values()))

    @contextmanager
    def full_disk(self):
        """The disk is full, as far as the server can see."""
        hard = resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE)[1]
        full = os.path.getsize(self.out / "judgements.db-wal")
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (full, hard))
        yield
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (hard, hard))


class Voter:
    """A judge who uses the page by HTTP; `votes`, `last`, `ballot` and `turn` are what the page says."""

    def __init__(self, server, base):
        self.server, self.base = server, base
        self.open()

    def open(self):
        status, _, self.html = self.server.request("GET", f"{self.base}/")
        self._check(status)
        self._read()

    def _check(self, status):
        """Where a server was killed, another test's may have taken its port, and knows no such judge."""
        if status == 403:
            raise ConnectionError("this is not the server of this judge")

    def _read(self):
        votes, last, ballot, turn = STATE.search(self.html).groups()
        self.votes = int(votes)
        self.last, self.ballot, self.turn = (int(text) if text else None for text in (last, ballot, turn))

    def post(self, action, **message):
        """Post something; the page moves on if the server says so."""
        status, _, text = self.server.request("POST", f"{self.base}/{action}", message)
        self._check(status)
        answer = json.loads(text)
        if not isinstance(answer, dict):
            raise ConnectionError("this is not a voting server")
        if status == 200:
            self.html = answer["html"]
            self._read()
        return status, answer

    def vote(self, choice, seconds=2.0):
        return self.post("vote", ballot=self.ballot, turn=self.turn, choice=choice, seconds=seconds)

    def skip(self, reason):
        return self.post("skip", ballot=self.ballot, turn=self.turn, reason=reason, seconds=1.0)

    def undo(self):
        return self.post("undo", vote=self.last)

    def texts(self):
        """The numbers of the essays on the left and on the right."""
        return [int(number) for number in re.findall(r"Essay number (\d+)", self.html)]
