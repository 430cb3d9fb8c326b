#!/usr/bin/env python3
"""A provider for `backend: {kind: command}`: its units are processes of this machine."""
import base64, fcntl, json, os, pathlib, shutil, signal, socket, subprocess, sys, time

ROOT = pathlib.Path(os.environ.get("LOCAL_UNITS", "~/.cache/local-units")).expanduser()
# Every process of a unit holds its lock; what ends as a whole leaves the status behind.
KEEPER = 'echo $$ >"$0/pid"; trap : TERM; "$@"; echo $? >"$0/exit"'

def say(**line):
    print(json.dumps(line), flush=True)

def fail(kind, message):
    say(version=1, error={"class": kind, "message": message})
    sys.exit()

def alive(unit):
    try:
        with open(unit / "lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as e:
        return isinstance(e, BlockingIOError)  # or it is gone

def instance(ask):
    return {"id": ask["name"], "name": ask["name"], "marks": ask["marks"], "env": ask["env"], "host": "127.0.0.1",
            "state": "running" if alive(ROOT / ask["name"]) else "ended"}

def create(ask):
    if not os.path.isdir(ask.get("dir", "/")):
        fail("spec", "there is no folder " + ask["dir"])
    for port in [ask["port"], *ask.get("ports", {}).values()]:
        try:
            socket.create_server(("", port)).close()
        except OSError as e:
            fail("taken", f"port {port}: {e}")
    unit = ROOT / ask["name"]
    unit.mkdir(0o700, parents=True)
    (unit / "new").write_text(json.dumps(ask))
    for name, text in ask.get("files", {}).items():
        os.makedirs(ask["files_dir"], exist_ok=True)
        pathlib.Path(ask["files_dir"], name).write_text(text)
    with open(unit / "lock", "w") as lock, open(unit / "log", "w") as log:
        fcntl.flock(lock, fcntl.LOCK_EX)
        (unit / "new").rename(unit / "request")  # from now on find sees it
        subprocess.Popen(["/bin/sh", "-c", KEEPER, unit, *ask["argv"]], env={"PATH": os.environ["PATH"], **ask["env"]}, cwd=ask.get("dir"),
                         stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=[lock.fileno()], start_new_session=True)
    say(version=1, instance=instance(ask))

def find(ask):
    say(version=1, instances=[instance(json.loads(r.read_text())) for r in ROOT.glob(ask["name"] + "*/request")])

def kill(unit, sign):
    try:
        os.killpg(int((unit / "pid").read_text()), sign)
        return True
    except (OSError, ValueError):
        return False  # it is not that far, or over

def delete(ask):
    unit = ROOT / ask["id"]
    for sign, patience in (signal.SIGTERM, ask["grace_s"] + 2), (signal.SIGKILL, 5):
        end, asked = time.monotonic() + patience, False
        while alive(unit) and time.monotonic() < end:
            asked = asked or kill(unit, sign)
            time.sleep(0.05)
    if alive(unit):
        fail("failed", "it does not end")
    shutil.rmtree(unit, ignore_errors=True)
    say(version=1)

def attach(ask):
    unit = ROOT / ask["id"]
    if not unit.is_dir():
        return say(error={"class": "not_found", "message": "there is no " + ask["id"]})
    with open(unit / "log", "rb") as log:
        log.seek(ask["offset"])
        while True:
            over = not alive(unit)
            if text := log.read(1 << 20):
                say(log=base64.b64encode(text).decode())
            elif over:
                break
            time.sleep(0.05)
    status = unit / "exit"
    say(exit={"code": int(status.read_text()) if status.exists() else 137})

{"create": create, "find": find, "delete": delete, "attach": attach}[sys.argv[1]](json.load(sys.stdin))
