package server

import "sweep.dev/sweep/sim/core"

// Lines are what the server logs of each request, in vLLM's words: Info with
// --enable-log-requests, Debug with VLLM_LOGGING_LEVEL=DEBUG. Nil is nothing.
type Lines struct {
	Info, Debug func(format string, args ...any)
}

func (l *Lines) received(j *job) {
	if l.Info != nil {
		l.Info("Received request %s: params: SamplingParams(n=1, max_tokens=%d), lora_request: None.", j.reply.ID, j.maxTokens)
	}
}

// loads logs a cache that is on its way from another server.
func (l *Lines) loads(j *job, from *kvTransfer) {
	if l.Debug != nil {
		blocks := (j.prompt + core.BlockSize - 1) / core.BlockSize
		l.Debug("start_load_kv for request %s from remote engine %s. Num local_block_ids: %d. Num remote_block_ids: %[3]d.", j.reply.ID, from.Engine, blocks)
	}
}

func (l *Lines) moved(j *job) {
	if l.Debug != nil {
		l.Debug("Finished recving KV transfer for request %s", j.reply.ID)
	}
}

// sent logs a cache that another server has got.
func (l *Lines) sent(j *job) {
	if l.Debug != nil {
		l.Debug("Finished sending KV transfer for request %s", j.reply.ID)
	}
}
