package executor

import (
	"sweep.dev/sweep/internal/procfs"
	"sweep.dev/sweep/result"
)

// client fills in what the measuring client knows of itself.
func (m *measurement) client(row result.Row) {
	row["stamp_kind"] = orNil(m.health.StampKind)
	h := &m.health
	if h.Client == "" && h.StampKind == "" {
		return // it never ran
	}
	row["client"] = orNil(h.Client)
	row["client_cpu"] = h.CPU
	row["client_max_stall_ms"] = milliseconds(h.MaxGap)
	if h.Loop > 0 {
		row["client_loop"] = h.Loop
	}
	if h.Lag.N() > 0 {
		row["p50_client_lag_ms"] = milliseconds(h.Lag.Quantile(0.50))
		row["p99_client_lag_ms"] = milliseconds(h.Lag.Quantile(0.99))
		row["max_client_lag_ms"] = milliseconds(h.Lag.Max())
	}
	chunks, shared := 0, 0
	for i := range m.requests {
		if r := &m.requests[i]; r.Measured() {
			chunks += r.TokenChunks()
			shared += r.Coalesced
		}
	}
	if chunks > 0 {
		row["coalesced_ratio"] = float64(shared) / float64(chunks)
		if shared > 0 {
			row["stamp_error_ms"] = milliseconds(h.StampError)
		}
	}
	if h.RTT.N() > 0 {
		row["p50_rtt_ms"] = milliseconds(h.RTT.Quantile(0.50))
		row["max_rtt_ms"] = milliseconds(h.RTT.Max())
		row["tcp_retransmits"] = int64(h.Retransmits) // seen where the round trip is
	}
	row["clock_steps"] = int64(len(h.ClockSteps))
	row["reopened_connections"] = int64(h.Reopened)
	if m.stolen != nil {
		row["cpu_steal"] = *m.stolen
	}
	if c := m.Calibration; c != nil {
		row["calibrated_error_ms"] = milliseconds(c.Error())
		if c.Ceiling.Chunks > 0 {
			row["calibrated_ceiling_chunks_s"] = c.Ceiling.Chunks
		}
	}
}

// stealing begins to look at the CPU time that the machine's hypervisor gives to
// others; the returned function ends that.
func (m *measurement) stealing() (stop func()) {
	from, ok := procfs.ReadCPUTime()
	return func() {
		if to, still := procfs.ReadCPUTime(); ok && still {
			if share, known := to.StolenSince(from); known {
				m.stolen = &share
			}
		}
	}
}
