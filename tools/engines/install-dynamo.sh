#!/usr/bin/env bash
# Makes .engines/dynamo: NVIDIA Dynamo's frontend, router and runtime, with the
# mocker for a worker, and in it the folder tiny, a tokenizer and a
# configuration without weights. 0.7 GB, about a minute and a half.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

version=1.6.1
from=(tools/engines/requirements-dynamo.txt tools/engines/install-dynamo.sh tools/engines/tiny_hf.py)

begin "${1:-}" dynamo "${from[@]}"

venv dynamo
pip dynamo install -q -r tools/engines/requirements-dynamo.txt
pip dynamo install -q --no-deps "ai-dynamo==$version"

.engines/dynamo/bin/python tools/engines/tiny_hf.py --no-weights .engines/dynamo/tiny >&2
.engines/dynamo/bin/python -m dynamo.mocker --help >/dev/null

finish dynamo "${from[@]}"
