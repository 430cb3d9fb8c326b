"""The agent of a rented container: what sweep can ask while the engine runs.

It holds no decision. Beats and promises go into files that the shell, its
parent, looks at each second; the shell ends the pod, with or without an agent.
It needs Python 3.6 and nothing else. The network between may be read and changed
by others: requests and answers are signed with the pod's token, which nobody
sends. sign.go says how.
"""

import collections
import hashlib
import hmac
import http.server
import json
import os
import re
import select
import shutil
import signal
import socketserver
import subprocess
import sys
import threading
import time
import urllib.parse

TOKEN = os.environ.pop("SWEEP_TOKEN", "").encode()
DIR = os.environ.pop("SWEEP_DIR")
LOG = os.environ.pop("SWEEP_LOG")
DEADLINE = int(os.environ.pop("SWEEP_DEADLINE"))
GRACE = int(os.environ.pop("SWEEP_GRACE"))
HOST = os.environ.pop("SWEEP_AGENT_HOST")
PORT = int(os.environ.pop("SWEEP_AGENT_PORT"))
SHELL = os.getppid()
SESSION = os.urandom(16).hex()
BEGAN = time.monotonic()

BODY = 64 << 10  # bytes of a request
CHUNK = 1 << 20  # bytes of the log or of the samples in one answer
OUTPUT = 4 << 20  # bytes of one tool's output, and of all samples kept
WAIT = 25  # seconds that an answer waits for news: less than any proxy
BUSY = 64  # connections at a time
TOOL = 30  # seconds for one run of a tool
WINDOW = 30000  # milliseconds that a request may be too old or too new

# The tools that are run, each with a pattern of its arguments, and the command
# whose lines are kept as samples. agent.go puts them here, from the table of tools.
TOOLS = {}
SAMPLES = []


SIGNED = re.compile(r"Sweep-HMAC-SHA256 ([0-9a-f]{32}) ([0-9]{1,15}) ([0-9a-f]{32}) ([0-9a-f]{64})\Z")
MARKS = ("X-Sweep-Offset", "X-Sweep-End", "X-Sweep-Exit")


def sign(*parts):
    return hmac.new(TOKEN, "\n".join(parts).encode(), hashlib.sha256).hexdigest()


def digest(body):
    return hashlib.sha256(body).hexdigest()


def since_start():
    return int((time.monotonic() - BEGAN) * 1000)


class Nonces:
    """The nonces of the last WINDOW; none is accepted twice."""

    def __init__(self):
        self.lock = threading.Lock()
        self.seen = {}

    def take(self, nonce, at):
        with self.lock:
            now = since_start()
            if abs(at - now) > WINDOW:
                return False
            for old in [n for n, t in self.seen.items() if t < now - WINDOW]:
                del self.seen[old]
            if nonce in self.seen:
                return False
            self.seen[nonce] = at
            return True


NONCES = Nonces()


def clock():
    """The shell's clock: the machine's uptime."""
    try:
        with open("/proc/uptime") as f:
            return float(f.read().split()[0])
    except OSError:
        return time.monotonic()


def read_int(name):
    try:
        with open(os.path.join(DIR, name)) as f:
            return int(f.read().split()[0])
    except (OSError, ValueError, IndexError):
        return None


class Number:
    """A number in a file, written in place so that a full disk has room for it."""

    def __init__(self, name):
        self.fd = os.open(os.path.join(DIR, name), os.O_RDWR | os.O_CREAT, 0o600)
        if os.fstat(self.fd).st_size == 0:
            self.write(0)

    def write(self, n):
        os.pwrite(self.fd, b"%20d\n" % n, 0)


class Samples:
    """The latest lines of SAMPLES, which run from the first question on."""

    def __init__(self):
        self.news = threading.Condition()
        self.lines = collections.deque()
        self.base = 0  # offset of the first line
        self.end = 0
        self.process = None

    def start(self, tool):
        with self.news:
            if self.process is None or self.process.poll() is not None:
                self.process = subprocess.Popen(
                    [tool] + SAMPLES[1:],
                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
                threading.Thread(target=self.collect, args=(self.process.stdout,), daemon=True).start()

    def collect(self, out):
        with out:
            for line in iter(lambda: out.readline(CHUNK), b""):
                with self.news:
                    self.lines.append(line)
                    self.end += len(line)
                    while self.end - self.base > OUTPUT:
                        self.base += len(self.lines.popleft())
                    self.news.notify_all()

    def read(self, offset, wait):
        """The first offset there is from offset on, and bytes from there."""
        with self.news:
            if offset >= self.end:
                self.news.wait(wait)
            start = min(max(offset, self.base), self.end)
            data = b"".join(self.lines)[start - self.base:]
            return start, data[:CHUNK]

    def stop(self):
        if self.process is not None:
            self.process.kill()


class Log:
    """The output of the engine, or of one of several. The file may be emptied; offsets go on."""

    def read(self, offset, wait, replica=None):
        """An offset, bytes from there, and whether no more will come."""
        until = time.monotonic() + wait
        of = "" if replica is None else ".%d" % replica
        path = LOG if replica is None else os.path.join(DIR, "log" + of)
        while True:
            ended = read_int("exit" + of) is not None
            base = read_int("base" + of) or 0
            start = max(offset, base)
            try:
                with open(path, "rb") as f:
                    if f.seek(0, os.SEEK_END) < start - base:
                        start = base  # another log than the one that was read before
                    f.seek(start - base)
                    data = f.read(CHUNK)
            except OSError:
                data = b""
            if data or ended or time.monotonic() >= until:
                return start, data, ended and not data
            time.sleep(0.2)


BEAT, KEEP = Number("beat"), Number("keep")
COUNT = [0]
SAMPLED, LOGGED = Samples(), Log()


class Refused(Exception):
    def __init__(self, code, text):
        Exception.__init__(self, text)
        self.code = code


def over():
    """Why the pod ends; empty while it does not."""
    try:
        with open(os.path.join(DIR, "over")) as f:
            return f.read(CHUNK).strip()
    except OSError:
        return ""


def status():
    ended = read_int("exit")
    return {
        "left_seconds": max(0, DEADLINE - int(clock())),
        "kept_seconds": max(0, (read_int("keep") or 0) - int(clock())),
        "engine_pid": read_int("engine") if ended is None else None,
        "exit_status": ended,
        "beats": COUNT[0],
        "over": over(),
        "exits": exits(),
    }


def exits():
    """The exit statuses of those of several replicas that have ended."""
    return {f[5:]: read_int(f) for f in os.listdir(DIR) if re.match(r"exit\.\d+\Z", f)}


def find(tool):
    path = shutil.which(tool)
    if path is None:
        raise Refused(404, "there is no " + tool)
    return os.path.abspath(path)


def run(argv):
    """One run of a tool: its status and what it printed."""
    if not isinstance(argv, list) or not argv or not all(isinstance(a, str) for a in argv):
        raise Refused(400, "argv is not a list of strings")
    tool = argv[0]
    if tool not in TOOLS:
        raise Refused(403, "nothing is run but " + " and ".join(TOOLS))
    if re.search(r"\s", "".join(argv)) or not re.fullmatch(TOOLS[tool], " ".join(argv[1:])):
        raise Refused(403, tool + " is not run with these arguments")
    until = time.monotonic() + TOOL
    with subprocess.Popen([find(tool)] + argv[1:], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as p:
        try:
            out = b""
            while select.select([p.stdout], [], [], max(0, until - time.monotonic()))[0]:
                part = os.read(p.stdout.fileno(), 1 << 16)
                if not part:
                    return p.wait(max(1, until - time.monotonic())), out
                out += part
                if len(out) > OUTPUT:
                    raise Refused(502, "%s printed more than %d bytes" % (tool, OUTPUT))
            raise Refused(504, "%s took longer than %d s" % (tool, TOOL))
        except subprocess.TimeoutExpired:
            raise Refused(504, "%s took longer than %d s" % (tool, TOOL))
        finally:
            p.kill()


class Handler(http.server.BaseHTTPRequestHandler):
    server_version, sys_version = "sweep", ""
    timeout = 15  # seconds for a peer that says or takes nothing
    nonce = ""  # of a request that was signed with our token

    def log_message(self, *args):
        pass

    def do_GET(self):
        self.serve(self.get)

    def do_POST(self):
        self.serve(self.post)

    def serve(self, method):
        try:
            self.nonce = ""
            body = self.body()
            self.admit(body)
            method(urllib.parse.urlsplit(self.path), body)
        except Refused as e:
            self.answer(e.code, str(e).encode()[:400])  # agent.go checks the first 512 bytes

    def admit(self, body):
        """Refuses a request unless it is signed with TOKEN, of this session, in time and new."""
        m = SIGNED.match(self.headers.get("Authorization", ""))
        if TOKEN and m:
            session, at, nonce, mac = m.groups()
            if hmac.compare_digest(mac, sign("request", session, at, nonce, self.command, self.path, digest(body))):
                self.nonce = nonce  # the answer says what session and time it is
                if session == SESSION and NONCES.take(nonce, int(at)):
                    return
        raise Refused(401, "")

    def body(self):
        try:
            size = int(self.headers.get("Content-Length", "0"))
        except ValueError:
            size = -1
        if size < 0 or size > BODY or self.headers.get("Transfer-Encoding"):
            # Who is cut off in the middle of sending does not hear why.
            for _ in range(min(size, 16 * BODY) // BODY):
                self.rfile.read(BODY)
            raise Refused(413, "a body of at most %d bytes with its length" % BODY)
        return self.rfile.read(size)

    def answer(self, code, body, **headers):
        headers = {name.replace("_", "-"): str(value) for name, value in headers.items()}
        if self.nonce:
            at = str(since_start())
            marks = [headers.get(name, "") for name in MARKS]
            headers["X-Sweep-Session"], headers["X-Sweep-Time"] = SESSION, at
            headers["X-Sweep-Mac"] = sign("answer", self.nonce, str(code), SESSION, at, *(marks + [digest(body)]))
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def answer_status(self):
        self.answer(200, json.dumps(status()).encode(), Content_Type="application/json")

    def get(self, url, _):
        if url.path == "/status":
            return self.answer_status()
        query = urllib.parse.parse_qs(url.query)
        try:
            offset = min(1 << 50, max(0, int(query.get("offset", ["0"])[0])))
            wait = min(WAIT, max(0, int(query.get("wait", ["0"])[0])))
            replica = int(query["replica"][0]) if "replica" in query else None
        except ValueError:
            raise Refused(400, "offset, wait or replica is no number")
        if url.path == "/log":
            start, data, ended = LOGGED.read(offset, wait, replica)
            return self.answer(200, data, X_Sweep_Offset=start, X_Sweep_End=int(ended))
        if url.path == "/smi":
            SAMPLED.start(find(SAMPLES[0]))
            start, data = SAMPLED.read(offset, wait)
            return self.answer(200, data, X_Sweep_Offset=start, X_Sweep_End=0)
        raise Refused(404, "no such thing")

    def post(self, url, body):
        try:
            args = json.loads(body.decode()) if body else {}
        except ValueError:
            raise Refused(400, "the body is not JSON")
        if not isinstance(args, dict):
            raise Refused(400, "the body is not an object")
        if url.path in ("/beat", "/keep", "/start") and over():
            raise Refused(410, over())
        if url.path == "/beat":
            BEAT.write(int(clock()))
            COUNT[0] += 1
            self.answer_status()
        elif url.path == "/keep":
            seconds = args.get("seconds")
            if not isinstance(seconds, int) or seconds < 0:
                raise Refused(400, "seconds is not a whole number")
            KEEP.write(min(int(clock()) + seconds, DEADLINE) if seconds else 0)
            self.answer_status()
        elif url.path == "/start":
            n = args.get("replica")
            if not isinstance(n, int) or n < 0 or n > 999:
                raise Refused(400, "no such replica")
            os.close(os.open(os.path.join(DIR, "start.%d" % n), os.O_WRONLY | os.O_CREAT, 0o600))
            self.answer(202, b"")
        elif url.path == "/end":
            self.answer(202, b"")
            os.kill(SHELL, signal.SIGUSR1)
        elif url.path == "/exec":
            code, out = run(args.get("argv"))
            self.answer(200, out, X_Sweep_Exit=code)
        else:
            raise Refused(404, "no such thing")


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, *args):
        self.slots = threading.BoundedSemaphore(BUSY)
        http.server.HTTPServer.__init__(self, *args)

    def process_request(self, request, client_address):
        if self.slots.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request, client_address):
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.slots.release()

    def handle_error(self, request, client_address):
        pass  # the peer has gone; there is nobody to tell

    def server_bind(self):
        # Without HTTPServer's look-up of a name, which may take its time.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = HOST, PORT


def end_engine():
    """What the shell would do: it is gone, and nobody else is left to."""
    group = read_int("engine")
    for number, seconds in ((signal.SIGTERM, GRACE), (signal.SIGKILL, 0)):
        try:
            os.killpg(group, number)
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                os.killpg(group, 0)
                time.sleep(0.2)
        except (OSError, TypeError):
            return


def watch():
    while os.getppid() == SHELL:
        time.sleep(1)
    SAMPLED.stop()
    end_engine()
    os._exit(1)


def stop(*_):
    SAMPLED.stop()
    os._exit(0)


signal.signal(signal.SIGTERM, stop)
signal.signal(signal.SIGINT, signal.SIG_IGN)
try:
    SERVER = Server((HOST, PORT), Handler)
except OSError as e:
    print("sweep-bootstrap: the agent cannot listen on %s:%d: %s" % (HOST, PORT, e.strerror), flush=True)
    sys.exit(1)
threading.Thread(target=watch, daemon=True).start()
SERVER.serve_forever()
