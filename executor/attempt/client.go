package attempt

import (
	"sweep.dev/sweep/internal/procfs"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
)

// client fills in what the measuring client knows of itself.
func (a *Attempt) client(row result.Row) {
	row[col.StampKind] = orNil(a.health.StampKind)
	h := &a.health
	if h.Client == "" && h.StampKind == "" {
		return // it never ran
	}
	row[col.Client] = orNil(h.Client)
	row[col.ClientCPU] = h.CPU
	row[col.MaxClientStallMs] = milliseconds(h.MaxGap)
	if h.Loop > 0 {
		row[col.ClientLoop] = h.Loop
	}
	if h.Lag.N() > 0 {
		row[col.P50ClientLagMs] = milliseconds(h.Lag.Quantile(0.50))
		row[col.P99ClientLagMs] = milliseconds(h.Lag.Quantile(0.99))
		row[col.MaxClientLagMs] = milliseconds(h.Lag.Max())
	}
	chunks, shared := 0, 0
	for i := range a.requests {
		if r := &a.requests[i]; r.Measured() {
			chunks += r.TokenChunks()
			shared += r.Coalesced
		}
	}
	if chunks > 0 {
		row[col.CoalescedRatio] = float64(shared) / float64(chunks)
		if shared > 0 {
			row[col.StampErrorMs] = milliseconds(h.StampError)
		}
	}
	if h.RTT.N() > 0 {
		row[col.P50RTTMs] = milliseconds(h.RTT.Quantile(0.50))
		row[col.MaxRTTMs] = milliseconds(h.RTT.Max())
		row[col.TCPRetransmits] = int64(h.Retransmits) // seen where the round trip is
	}
	row[col.ClockSteps] = int64(len(h.ClockSteps))
	row[col.ReopenedConnections] = int64(h.Reopened)
	if a.stolen != nil {
		row[col.CPUSteal] = *a.stolen
	}
	if c := a.config.Calibration; c != nil {
		row[col.CalibratedErrorMs] = milliseconds(c.Error())
		if c.Ceiling.Chunks > 0 {
			row[col.CalibratedCeilingChunksS] = c.Ceiling.Chunks
		}
	}
}

// stealing begins to look at the CPU time that the machine's hypervisor gives to
// others; the returned function ends that.
func (a *Attempt) stealing() (stop func()) {
	from, ok := procfs.ReadCPUTime()
	return func() {
		if to, still := procfs.ReadCPUTime(); ok && still {
			if share, known := to.StolenSince(from); known {
				a.stolen = &share
			}
		}
	}
}
