package rented

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/rundir/podledger"
)

// OpenLedger opens the ledger of this machine: what its runs have rented and not
// yet given back.
func OpenLedger(fx *effect.Effects, env func(string) (string, bool)) (*podledger.Ledger, error) {
	dir, err := podledger.DefaultDir(env)
	if err != nil {
		return nil, err
	}
	return podledger.Open(fx, dir)
}

// PlaceOf tells the configuration of a plan's backend from any other, with the
// variables that it reads: a pod that is kept on another host is no server of this
// plan's.
func PlaceOf(p *plan.Plan) (string, error) {
	resolved, err := p.Resolved()
	if err != nil {
		return "", err
	}
	var part struct {
		Backend json.RawMessage `json:"backend"`
	}
	if err := json.Unmarshal(resolved, &part); err != nil {
		return "", err
	}
	sum := sha256.Sum256(append(part.Backend, p.Variables()...))
	return hex.EncodeToString(sum[:6]), nil
}
