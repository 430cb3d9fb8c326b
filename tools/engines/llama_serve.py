"""llama.cpp's own HTTP server, from the wheel that has no binary of its own.

It takes the place of `llama-server` and takes the same flags, as far as
they are listed below: an unknown one is an error and never ignored.

SIGTERM and SIGINT end it at once. Any error ends it with status 1, a wrong
command line with 2.
"""

import argparse
import os
import signal
import socket
import sys
import time


def positive(text):
    n = int(text)
    if n < 1:
        raise ValueError
    return n


positive.__name__ = "positive number"  # as argparse's messages call it


def arguments():
    p = argparse.ArgumentParser(description=__doc__, allow_abbrev=False,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", required=True, help="path of the GGUF file")
    p.add_argument("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    p.add_argument("--port", required=True, type=positive)
    p.add_argument("--alias", help="the name that it answers to (the path)")
    p.add_argument("--parallel", type=positive, default=4, metavar="N",
                   help="requests that it serves at once (%(default)s)")
    p.add_argument("--ctx-size", type=positive, default=8192, metavar="N",
                   help="tokens of context, shared by all requests (%(default)s)")
    p.add_argument("--threads", type=positive, default=len(os.sched_getaffinity(0)), metavar="N",
                   help="threads that compute (the CPUs that it may use)")
    for side in "k", "v":
        p.add_argument(f"--cache-type-{side}", choices=["f16", "q8_0", "q4_0"], default="f16",
                       help=f"type of the KV cache's {side.upper()} part (%(default)s)")
    p.add_argument("--metrics", action="store_true", help="serve /metrics")
    return p.parse_args()


def fail(problem):
    print(f"llama_serve: {problem}", file=sys.stderr, flush=True)
    # Threads of a server that half started would hold up a normal exit.
    os._exit(1)


def main():
    args = arguments()
    if not os.path.isfile(args.model):
        fail(f"no such model: {args.model}")
    # The server would find a taken port only once it has loaded the model.
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind((args.host, args.port))
        except OSError as e:
            fail(f"{args.host}:{args.port}: {e.strerror}")

    # The default actions, so that a signal also ends it while C++ holds the
    # interpreter: a Python handler would wait for that to return.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)

    import xllamacpp

    p = xllamacpp.CommonParams()
    p.model.path = args.model
    if args.alias:
        p.model_alias = {args.alias}
    p.hostnames = [args.host]
    p.port = args.port
    p.n_parallel = args.parallel
    p.n_ctx = args.ctx_size
    p.cpuparams.n_threads = args.threads
    p.cache_type_k = getattr(xllamacpp.ggml_type, "GGML_TYPE_" + args.cache_type_k.upper())
    p.cache_type_v = getattr(xllamacpp.ggml_type, "GGML_TYPE_" + args.cache_type_v.upper())
    p.endpoint_metrics = args.metrics
    p.ui = False
    try:
        server = xllamacpp.Server(p)
    except Exception as e:  # whatever it throws, there is no server
        time.sleep(0.5)  # a thread of the server still writes why to its log
        fail(e)
    print(f"llama_serve: listening on {server.listening_address}", flush=True)
    while True:
        signal.pause()


main()
