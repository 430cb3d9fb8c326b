#!/usr/bin/env bash
# Makes quality/testdata/lm_eval/choices-float32.jsonl and choices-bfloat16.jsonl: the samples
# of a multiple choice task that lm-evaluation-harness logs of vLLM with a tiny model of random
# weights, in two formats of the weights. Two minutes, nothing is downloaded. The tests of
# package quality read the files; run this again for another release of lm-evaluation-harness.
#
#   task engines:vllm
#   python3 -m venv /tmp/lm-eval && /tmp/lm-eval/bin/pip install 'lm-eval[api]==0.4.13' transformers
#   PYTHON=/tmp/lm-eval/bin/python tools/lm-eval/samples.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
: "${PYTHON:?is not set: give the Python of an environment with lm-eval[api] 0.4.13}"

work=$(mktemp -d)
server=
stop() {
	[[ -z $server ]] || { kill "$server" && wait "$server" || true; }
	server=
}
trap 'stop; rm -rf "$work"' EXIT

port=$("$PYTHON" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
export HF_HUB_OFFLINE=1 HF_DATASETS_OFFLINE=1 HF_HOME="$work/hf" VLLM_CPU_KVCACHE_SPACE=1 VLLM_NO_USAGE_STATS=1 OPENAI_API_KEY=none DO_NOT_TRACK=1
for dtype in float32 bfloat16; do
	.engines/vllm/bin/vllm serve .engines/tiny-hf --host 127.0.0.1 --port "$port" --served-model-name tiny \
		--dtype "$dtype" --max-model-len 2048 --max-num-seqs 4 --enforce-eager >"$work/$dtype.log" 2>&1 &
	server=$!
	until curl -sf "http://127.0.0.1:$port/health" >/dev/null; do
		kill -0 "$server" 2>/dev/null || { tail "$work/$dtype.log" >&2; exit 1; }
		sleep 1
	done
	"$PYTHON" -m lm_eval --model local-completions \
		--model_args "model=tiny,base_url=http://127.0.0.1:$port/v1/completions,tokenizer_backend=huggingface,tokenizer=.engines/tiny-hf,max_length=1024" \
		--include_path tools/lm-eval --tasks fruit --output_path "$work/$dtype" --log_samples >"$work/$dtype.eval" 2>&1 ||
		{ tail -30 "$work/$dtype.eval" >&2; exit 1; }
	stop
	cp "$work/$dtype"/*/samples_fruit_*.jsonl "judge/quality/testdata/lm_eval/choices-$dtype.jsonl"
done
