"""The engine of a pod that has several: it starts each replica when the agent was
told so, with an output, an environment and an exit status of its own.

It ends none. All of them are in its process group and carry the shell's mark, by
which the shell ends them whatever becomes of this process. It needs Python 3.6.
"""

import json
import os
import subprocess
import sys
import time

DIR = os.environ.pop("SWEEP_STATE", "")
REPLICAS = json.loads(os.environ.pop("SWEEP_REPLICAS"))
FULL = 256 << 20  # bytes of one output, which is emptied then
EVERY = 0.1  # seconds between two looks


def path(name, n):
    return os.path.join(DIR, "%s.%d" % (name, n))


def write(name, n, number):
    """A number in a file, which is there as a whole or not at all."""
    with open(path(name, n) + "~", "w") as f:
        f.write("%d\n" % number)
    os.rename(path(name, n) + "~", path(name, n))


def write_files(r):
    if not r.get("dir"):
        return
    os.makedirs(r["dir"], 0o700, exist_ok=True)
    for name, text in (r.get("files") or {}).items():
        fd = os.open(os.path.join(r["dir"], name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(fd, "wb") as f:
            f.write(text.encode())


def say(n, text):
    print("sweep-bootstrap: %s %s" % (REPLICAS[n]["name"], text), flush=True)


def start(n):
    """A replica's process, or None where it cannot be had."""
    r = REPLICAS[n]
    with open(path("log", n), "ab") as log:
        try:
            p = subprocess.Popen(r["argv"], env=dict(os.environ, **r["env"]), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            say(n, "starts")
            return p
        except OSError as e:
            log.write(("%s: %s\n" % (r["argv"][0], e.strerror)).encode())
            status = 127 if isinstance(e, FileNotFoundError) else 126  # as a shell has it
    end(n, status)
    return None


def end(n, status):
    write("exit", n, status)
    say(n, "exited with status %d" % status)


def trim(n, base):
    """Empties an output that would fill the disk. Offsets into it go on."""
    size = os.path.getsize(path("log", n))
    if size > FULL:
        os.truncate(path("log", n), 0)
        write("base", n, base + size)
        return base + size
    return base


def main():
    if not DIR:
        sys.exit("sweep-bootstrap: no place to write: several servers cannot be started")
    for r in REPLICAS:
        write_files(r)
    waiting, running, bases = set(range(len(REPLICAS))), {}, {}
    while True:
        for n in sorted(waiting):
            if os.path.exists(path("start", n)):
                waiting.remove(n)
                bases[n] = 0
                running[n] = start(n)
        for n, p in list(running.items()):
            if p is None:
                del running[n]
            elif p.poll() is not None:
                del running[n]
                end(n, p.returncode if p.returncode >= 0 else 128 - p.returncode)
            else:
                bases[n] = trim(n, bases[n])
        time.sleep(EVERY)


main()
