#!/usr/bin/env bash
# Makes .engines/aiperf and .engines/guidellm, two load generators that the
# benchmark of peers measures beside sweep: 7 GB, about three minutes. The third,
# vllm bench, is part of .engines/vllm.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

check=${1:-}
for name in aiperf guidellm; do
	from=("tools/engines/requirements-$name.txt" tools/engines/install-peers.sh)
	if current "$name" "${from[@]}"; then
		continue
	fi
	[[ $check != --check ]] || exit 1
	say "installing $name into .engines/$name"
	rm -rf ".engines/$name"
	mkdir -p .engines
	venv "$name"
	pip "$name" install -q -r "tools/engines/requirements-$name.txt"
	".engines/$name/bin/$name" --help >/dev/null
	finish "$name" "${from[@]}"
done
