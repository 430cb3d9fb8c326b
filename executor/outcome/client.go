package outcome

import (
	"sweep.dev/sweep/judge/validity"
	"sweep.dev/sweep/load/calibrate"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
)

// client fills in what the measuring client knows of itself.
func client(row result.Row, m *Measured, calibration *calibrate.Result) {
	row[col.StampKind] = orNil(m.Health.StampKind)
	h := &m.Health
	if h.Client != "" || len(h.Shards) > 0 {
		row[col.Clients] = int64(max(1, len(h.Shards)))
	}
	if h.Client == "" && h.StampKind == "" {
		return // it never ran
	}
	row[col.Client] = orNil(h.Client)
	row[col.ClientCPU] = h.CPU
	row[col.MaxClientStallMs] = result.Milliseconds(h.MaxGap)
	if h.Loop > 0 {
		row[col.ClientLoop] = h.Loop
	}
	if h.Lag.N() > 0 {
		row[col.P50ClientLagMs] = result.Milliseconds(h.Lag.Quantile(0.50))
		row[col.P99ClientLagMs] = result.Milliseconds(h.Lag.Quantile(0.99))
		row[col.MaxClientLagMs] = result.Milliseconds(h.Lag.Max())
	}
	chunks, shared := 0, 0
	for i := range m.Requests {
		if r := &m.Requests[i]; r.Measured() {
			chunks += r.TokenChunks()
			shared += r.Coalesced
		}
	}
	if chunks > 0 {
		row[col.CoalescedRatio] = float64(shared) / float64(chunks)
		if shared > 0 {
			row[col.StampErrorMs] = result.Milliseconds(h.StampError)
		}
	}
	if h.RTT.N() > 0 {
		row[col.P50RTTMs] = result.Milliseconds(h.RTT.Quantile(0.50))
		row[col.MaxRTTMs] = result.Milliseconds(h.RTT.Max())
		row[col.TCPRetransmits] = int64(h.Retransmits) // seen where the round trip is
	}
	row[col.ClockSteps] = int64(len(h.ClockSteps))
	row[col.ReopenedConnections] = int64(h.Reopened)
	if m.Stolen != nil {
		row[col.CPUSteal] = *m.Stolen
	}
	if c := calibration; c != nil {
		row[col.CalibratedErrorMs] = result.Milliseconds(c.Error())
		if c.Ceiling.Chunks > 0 {
			row[col.CalibratedCeilingChunksS] = c.Ceiling.Chunks
		}
	}
}

// several fills in what is known of the clients of a load, if several sent it.
func several(o *result.Outcome, row result.Row, t *Trial, m *Measured) {
	if skew, ok := validity.Skew(&m.Health); ok {
		row[col.ClientSkewMs] = result.Milliseconds(skew)
	}
	o.Clients = validity.Clients(validity.Evidence{Row: row, Requests: m.Requests, Health: m.Health, Open: t.Cell.Load.Open()})
	if client, ok := validity.Limiting(o.Clients); ok {
		row[col.LimitingClient] = int64(client)
	}
}
