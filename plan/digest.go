package plan

import (
	"crypto/sha256"
	"encoding/hex"
)

// Digests are the beginning of the SHA-256 of canonical JSON. What goes into
// them is a promise: a run that is resumed and a night that is compared with
// the one before rest on it, and golden tests hold it.

func digest(v any, digits int) string {
	sum := sha256.Sum256(canonical(v))
	return hex.EncodeToString(sum[:])[:digits]
}

// cellID names a cell by what it is: the values of its axes, the model and the
// resolved load with its prompts. Not the order of anything, not the seed, and
// nothing of the server but its axes: the same cell has the same id every
// night, on every machine. Who sends and what ends a trial early change how a
// cell is measured, not which it is: they are the spec digest's.
func cellID(c Cell, axes []Axis, t forester) string {
	values := make(map[string]any, len(axes))
	for i, s := range c.Settings {
		values[axes[i].Name] = s.Value
	}
	load := c.Load
	load.Sampling.Seed = nil
	load.Client, load.Stop = "", nil
	return digest(map[string]any{"axes": values, "model": c.Server.Model, "load": t.tree(load)}, 12)
}

// serverID names a deployment by all that a change of would need a new launch.
func serverID(s Server) string { return digest(tree(s), 10) }

// SpecDigest is what else could change the measurement of a cell, in 12 hex
// digits: the engine's profile, and its content where a file gave it, image, command, fixed arguments, environment
// (by reference) and CPUs, the model's revision, the backend and the
// collectors with their settings, the seeds, the contents of the files of
// prompts, pairs and traces, the client that a plan chooses, what ends a trial
// early, the request deadline, and --set.
func (p *Plan) SpecDigest(c Cell) string {
	parts := map[string]any{
		"plan":    p.base,
		"profile": c.Server.Profile,
		"engine":  tree(p.Engines[c.Server.Engine]),
	}
	if c.Server.ProfileSHA256 != "" {
		parts["profile_sha256"] = c.Server.ProfileSHA256
	}
	return digest(parts, 12)
}

// digestBase is the part of SpecDigest that all cells have in common.
func (p *Plan) digestBase() map[string]any {
	base := map[string]any{
		"backend":  tree(p.Backend),
		"collect":  tree(p.Collect),
		"revision": p.ModelRevision,
		"seed":     p.Seed,
		"prompts":  p.Load.Prompts.FileSHA256,
		"request":  p.Timeouts.Request.String(),
	}
	if p.Load.Sampling.Seed != nil {
		base["sampling_seed"] = *p.Load.Sampling.Seed
	}
	// What a plan does not say is left out: its digest is the one that it had
	// before it could be said.
	if sum := p.Load.Prompts.PairsSHA256; sum != "" {
		base["pairs"] = sum
	}
	if t := p.Load.Trace; t != nil {
		base["trace"] = t.FileSHA256
	}
	if c := p.Load.Client; c != "" && c != ClientAuto {
		base["client"] = c
	}
	if p.Load.Stop != nil {
		base["stop"] = tree(p.Load.Stop)
	}
	if len(p.set) > 0 {
		base["set"] = p.set
	}
	return base
}

// Digest is the SHA-256 of the whole resolved plan, in hex: what resume
// compares.
func (p *Plan) Digest() string { return digest(p.resolved(), 64) }
