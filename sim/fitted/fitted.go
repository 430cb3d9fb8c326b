// Package fitted is the file of sweep sim fit: what a real server was measured to reach, and
// from which run that is known.
package fitted

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"sweep.dev/sweep/engine/catalog"
	"sweep.dev/sweep/sim/core"
)

// Version is that of the form.
const Version = 1

// maxFile bounds a file, in bytes.
const maxFile = 1 << 20

// A Profile is what a server reached.
type Profile struct {
	Version int     `json:"version"`
	Engine  string  `json:"engine"`
	GPU     string  `json:"gpu"`
	GPUs    int     `json:"gpu_count"`
	Model   string  `json:"model"`
	Release *string `json:"engine_version"` // null if it told none

	// Bandwidth and TFLOPS are effective rates of each GPU, for weights and keys in the
	// simulator's type: of a quantized model they are those of a larger one.
	Bandwidth float64 `json:"bandwidth_gb_s"`
	TFLOPS    float64 `json:"tflops"`
	StepUS    float64 `json:"step_overhead_us"`
	StartUS   float64 `json:"start_overhead_us"` // of each request
	// Errors are the standard errors of the four, as shares; null if the cells do not
	// tell the constant.
	Errors map[string]*float64 `json:"relative_errors"`

	LeftOut []HeldOut `json:"left_out"` // how far off the simulator is on cells that the fit has not seen
	Source  Source    `json:"source"`
}

// HeldOut is the distance of a percentile of the simulator from the measured one, over the cells
// that were left out: simulated / measured - 1.
type HeldOut struct {
	Column string  `json:"column"`
	Cells  int     `json:"cells"`
	Median float64 `json:"median_abs_error"`
	Worst  float64 `json:"worst_error"` // with its sign
}

// A Source is where a profile is from.
type Source struct {
	RunID      string    `json:"run_id"`
	Plan       string    `json:"plan"`
	PlanDigest string    `json:"plan_digest"`
	Simulated  bool      `json:"simulated"`
	Fitted     int       `json:"fitted_cells"`
	Measured   time.Time `json:"measured_at"`
	Sweep      string    `json:"sweep"`
}

// Read reads a file, and checks that a server can have what it says.
func Read(name string) (*Profile, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() // read only
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() > maxFile {
		return nil, fmt.Errorf("%s is larger than a file of sweep sim fit", name)
	}
	d := json.NewDecoder(f)
	d.DisallowUnknownFields()
	p := &Profile{}
	if err := d.Decode(p); err != nil {
		return nil, fmt.Errorf("%s is no file of sweep sim fit: %w", name, err)
	}
	if p.Version != Version {
		return nil, fmt.Errorf("%s has version %d, this sweep knows version %d", name, p.Version, Version)
	}
	if !(p.Bandwidth > 0 && p.TFLOPS > 0 && p.StepUS >= 0 && p.StartUS >= 0) {
		return nil, fmt.Errorf("%s: %w", name, errors.New("a rate is not above 0, or an overhead is negative"))
	}
	return p, nil
}

// Text returns the file's content.
func (p *Profile) Text() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	err := e.Encode(p)
	return b.Bytes(), err
}

// On returns the constants that give a GPU the rates of the profile, whatever its data sheet
// says.
func (p *Profile) On(g catalog.GPU) core.Constants {
	return core.Constants{
		Memory: p.Bandwidth / g.Bandwidth, Compute: p.TFLOPS / peak(g),
		Step: micros(p.StepUS), Start: micros(p.StartUS),
	}
}

// Of is the rates of constants on a GPU.
func (p *Profile) Of(k core.Constants, g catalog.GPU) {
	p.Bandwidth, p.TFLOPS = k.Memory*g.Bandwidth, k.Compute*peak(g)
	p.StepUS, p.StartUS = float64(k.Step)/1e3, float64(k.Start)/1e3
}

// peak returns the rate of the types of half precision, or of the only one that a card has.
func peak(g catalog.GPU) float64 { return max(g.TFLOPS["bfloat16"], g.TFLOPS["float16"]) }

func micros(us float64) time.Duration { return time.Duration(us * float64(time.Microsecond)) }
