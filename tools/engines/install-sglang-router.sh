#!/usr/bin/env bash
# Makes .engines/sglang-router: the SGLang model gateway. 0.15 GB, half a minute.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

from=(tools/engines/requirements-sglang-router.txt tools/engines/install-sglang-router.sh)
begin "${1:-}" sglang-router "${from[@]}"

venv sglang-router
pip sglang-router install -q -r tools/engines/requirements-sglang-router.txt
.engines/sglang-router/bin/python -m sglang_router.launch_router --help >/dev/null

finish sglang-router "${from[@]}"
