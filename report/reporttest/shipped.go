package reporttest

// ChatAndBatch describes a run of plans/chat-and-batch-loads.yaml, open and closed loops in
// one plan: a cell of each verdict that its objectives and a busy client can give. A test of
// command sweep holds that the plan has these cells.
const ChatAndBatch = `
plan chat-and-batch-loads
axes engine! gpu! load request_rate concurrency
cell vllm rtx-2000-ada chat 1 -
  ok tok=127 req=0.99 ttft=31/44 tpot=12/14 e2e=1560/1830 n=150 simulated meet="responsive|p95_ttft_ms < 300|p95_ttft_ms=44" meet="smooth|p95_tpot_ms < 50|p95_tpot_ms=14" meet="clean|error_rate == 0|error_rate=0"
cell vllm rtx-2000-ada chat 2 -
  ok tok=254 req=1.98 ttft=36/71 tpot=15/19 e2e=1940/2480 n=150 simulated meet="responsive|p95_ttft_ms < 300|p95_ttft_ms=71" meet="smooth|p95_tpot_ms < 50|p95_tpot_ms=19" meet="clean|error_rate == 0|error_rate=0"
cell vllm rtx-2000-ada chat 4 -
  ok tok=489 req=3.82 ttft=180/640 tpot=24/33 e2e=3230/4870 n=150 simulated miss="responsive|p95_ttft_ms < 300|p95_ttft_ms=640" meet="smooth|p95_tpot_ms < 50|p95_tpot_ms=33" meet="clean|error_rate == 0|error_rate=0"
cell vllm rtx-2000-ada batch - 4
  ok tok=118 req=1.84 ttft=240/410 tpot=30/34 e2e=2130/2560 n=150 simulated total_throughput_tok_s=3800 meet="worthwhile|total_throughput_tok_s > 500|total_throughput_tok_s=3800" meet="clean|error_rate == 0|error_rate=0"
cell vllm rtx-2000-ada batch - 16
  ok tok=164 req=2.56 ttft=1900/2700 tpot=68/81 e2e=6180/7800 n=150 simulated total_throughput_tok_s=5280 meet="worthwhile|total_throughput_tok_s > 500|total_throughput_tok_s=5280" meet="clean|error_rate == 0|error_rate=0"
cell vllm rtx-2000-ada batch - 32
  invalid tok=171 req=2.67 ttft=5100/7400 tpot=92/120 e2e=11900/15300 n=150 simulated total_throughput_tok_s=5510 reason="client_cpu|the client used 97 % of the CPU"
`
