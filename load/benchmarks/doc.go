// Package benchmarks holds the net/http driver against a server in another process,
// where nothing but sockets connects the two: a client that shares its garbage
// collector and its scheduler with the server measures itself.
//
//	go test ./load/benchmarks -run '^$' -bench ThousandStreams -benchtime 1x
//
// BenchmarkFlood measures the client's memory at a server that ignores max_tokens:
//
//	task bench PKG=./load/benchmarks BENCH=Flood
package benchmarks
