package plan

import (
	"crypto/sha256"
	"encoding/hex"

	"sweep.dev/sweep/result"
)

// Digests are the beginning of the SHA-256 of canonical JSON. What goes into
// them is a promise: a run that is resumed and a night that is compared with
// the one before rest on it, and golden tests hold it.

func digest(v any, digits int) string {
	sum := sha256.Sum256(canonical(v))
	return hex.EncodeToString(sum[:])[:digits]
}

// IDs names cells and servers; it reads the tags of each type once.
type IDs struct{ trees forester }

// Cell names a cell by what it is: the values of its axes, the model and the
// resolved load with its prompts. Not the order of anything, not the seed, and
// nothing of the server but its axes: the same cell has the same id every
// night, on every machine. Who sends and what ends a trial early change how a
// cell is measured, not which it is: they are the spec digest's.
func (i *IDs) Cell(c Cell) string {
	if i.trees == nil {
		i.trees = make(forester)
	}
	values := make(map[string]any, len(c.Settings))
	for _, s := range c.Settings {
		values[s.Axis.Name] = s.Value
	}
	load := c.Load
	load.Sampling.Seed = nil
	load.Client, load.Clients, load.Stop = "", Clients{}, nil
	return digest(map[string]any{"axes": values, "model": c.Server.Model, "load": i.trees.tree(load)}, 12)
}

// Server names a deployment by all that a change of would need a new launch.
func (i *IDs) Server(s Server) string { return digest(tree(s), 10) }

// SpecDigest returns what else could change the measurement of a cell, in 12 hex
// digits: the conditions and the subject, as far as the plan says them.
func (p *Plan) SpecDigest(c Cell) string {
	return digest([]string{p.conditions[c.LoadName()], p.SubjectDigest(c, nil)}, 12)
}

// ConditionsDigest returns how a cell of a plan is measured, in 12 hex digits:
// its load outside of the axes, the contents of the files of prompts, pairs and
// traces, the prompts of quality, the seeds, the client, what ends a trial early, the collectors with
// their settings, and the request deadline. client is who sends in place of the
// plan's choice, or "".
func (p *Plan) ConditionsDigest(c Cell, client string) string {
	if client == "" {
		return p.conditions[c.LoadName()]
	}
	load := p.loadOf(c)
	load.Client = client
	return p.conditionsOf(load)
}

func (p *Plan) conditionsOf(load Load) string {
	if load.Client == ClientAuto {
		load.Client = ""
	}
	parts := map[string]any{
		"load":    tree(load),
		"collect": tree(p.Collect),
		"seed":    p.Seed,
		"prompts": load.Prompts.FileSHA256,
		"pairs":   load.Prompts.PairsSHA256,
		"request": p.Timeouts.Request.String(),
	}
	if t := load.Trace; t != nil {
		parts["trace"] = t.FileSHA256
	}
	if p.Quality != nil { // what a server was asked before is in its caches
		parts["quality"] = p.Quality.Digest()
	}
	return digest(parts, 12)
}

// SubjectDigest returns what a trial of a cell measures beside the cell's axes, in 12
// hex digits: the engine's profile, and its content where a file gave it, image,
// command, fixed arguments, environment (by reference) and CPUs, the model's
// revision, the backend with its settings, and what the trial's row recorded of
// the server.
func (p *Plan) SubjectDigest(c Cell, row result.Row) string {
	parts := map[string]any{
		"backend":  tree(p.Backend),
		"revision": p.ModelRevision,
		"profile":  c.Server.Profile,
		"engine":   tree(p.Engines[c.Server.Engine]),
	}
	if c.Server.ProfileSHA256 != "" {
		parts["profile_sha256"] = c.Server.ProfileSHA256
	}
	for _, r := range result.Recorded {
		if v := row[r.Column]; v != nil {
			parts[r.Column] = v
		}
	}
	return digest(parts, 12)
}

// Variables returns the digest of the environment variables that the plan reads into
// texts that are not secret, in 12 hex digits; "" if it reads none. The other
// digests have the references that a plug-in gets, not their values: the URL of an
// endpoint may be ${SWEEP_URL}.
func (p *Plan) Variables() string { return p.variables }

// Digest returns the SHA-256 of the whole resolved plan, in hex: what resume
// compares.
func (p *Plan) Digest() string { return digest(p.resolved(), 64) }
