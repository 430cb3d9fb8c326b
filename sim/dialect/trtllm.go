package dialect

import "sweep.dev/sweep/sim/core"

// https://nvidia.github.io/TensorRT-LLM/commands/trtllm-serve/trtllm-serve.html
const trtllmFlags = `
	tokenizer=
	backend=
	max-batch-size=                      max-num-seqs
	max-num-tokens=                      max-num-batched-tokens
	max-seq-len=                         max-model-len
	max-beam-width=
	tp-size=                             tensor-parallel-size
	pp-size=
	ep-size=
	gpus-per-node=
	free-gpu-memory-fraction,kv-cache-free-gpu-memory-fraction=  gpu-memory-utilization
	kv-cache-dtype=                      kv-cache-dtype
	enable-chunked-prefill               enable-chunked-prefill=true
	num-postprocess-workers=
	trust-remote-code
	reasoning-parser=
	log-level=
	served-model-name=                   served-model-name
	config,extra-llm-api-options=       x-config
`

func trtllm(d *Dialect) {
	d.Flags = flags(trtllmFlags)
	// https://nvidia.github.io/TensorRT-LLM/llm-api/reference.html
	d.Settings = map[string]string{
		"kv_cache_config.enable_block_reuse": "enable-prefix-caching", "kv_cache_config.free_gpu_memory_fraction": "gpu-memory-utilization",
		"kv_cache_config.max_tokens": "x-kv-tokens", "kv_cache_config.dtype": "kv-cache-dtype",
		"enable_iter_perf_stats": "x-iterations", "return_perf_metrics": "x-metrics", "enable_chunked_prefill": "enable-chunked-prefill",
		"max_batch_size": "max-num-seqs", "max_num_tokens": "max-num-batched-tokens", "max_seq_len": "max-model-len",
		"tensor_parallel_size": "tensor-parallel-size",
	}
	d.Start = Start{Division: core.OfFree, Share: 0.9}
	d.Usage = Usage{
		Head:    "Usage: trtllm-serve serve [OPTIONS] MODEL\nTry 'trtllm-serve serve --help' for help.\n\n",
		Unknown: "Error: No such option: %s", First: true, Missing: "Error: Option '--%s' requires an argument.", Status: 2,
	}
}
