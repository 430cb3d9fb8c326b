// Package history is what cells have come to night after night, in a file that is only
// appended to.
//
// The file has one JSON object a line, each with its checksum in front (package
// crcline). The first line says the format and its version:
//
//	{"crc":"…","format":"sweep-history","version":1}
//	{"crc":"…","night":{"date":"…","run_id":"…","cell_id":"…",…}}
//	{"crc":"…","accept":{"date":"…","run_id":"…"}}
//	{"crc":"…","settings":{"run_id":"…","plan":{"engines.vllm.args.max-num-seqs":"64",…}}}
//
// A night is one cell of one run, of its VALID trials alone. A later line of the same
// run and cell replaces the one before it. An accept says that the level that a run was
// at is the new normal. Settings say what a change is of. A line that a crash cut off at the end of the file is cut away
// by the next writer; any other line that is not of this form is an error.
package history

import (
	"time"
)

// The form of a file.
const (
	format  = "sweep-history"
	version = 1

	maxLine = 64 << 10
	maxFile = 256 << 20
)

// A Night is one cell of one run.
type Night struct {
	Date time.Time `json:"date"` // when the run began, UTC
	Run  string    `json:"run_id"`
	Plan string    `json:"plan"`
	// Again is the run whose night this one measured a second time, for sweep night gate --rerun;
	// "" is a night of its own.
	Again string `json:"again_of,omitempty"`
	Label string `json:"label"` // of the cell
	Key
	Subject   Subject `json:"subject"`
	GPU       string  `json:"gpu,omitempty"`
	Simulated bool    `json:"simulated,omitempty"`
	Trials    int     `json:"trials"` // measured in this run, valid or not
	Valid     int     `json:"valid"`
	// Figures are by the columns of package metric that are kept, over the VALID trials.
	Figures map[string]Figure `json:"figures"`
}

// A Key names a series: nights with the same key are measurements of one thing.
type Key struct {
	Cell       string `json:"cell_id"`
	Conditions string `json:"conditions_digest"`
	// Machine is the class of the machine: backend, GPUs and the way to the server; and
	// the host, if the server runs on the client's own.
	Machine string `json:"machine"`
	Method  int    `json:"method"`
}

// A Subject is what was measured. A new one is no new series.
type Subject struct {
	Digest        string `json:"subject_digest,omitempty"`
	Engine        string `json:"engine,omitempty"`
	EngineVersion string `json:"engine_version,omitempty"`
	ImageDigest   string `json:"image_digest,omitempty"`
	ModelRevision string `json:"model_revision,omitempty"`
	Driver        string `json:"driver_version,omitempty"`
}

// A Figure is a metric over the VALID trials of a night.
type Figure struct {
	Mean *float64 `json:"mean"` // nil if it is infinite
	SD   *float64 `json:"sd"`   // n - 1, between the trials; nil below two
	N    int      `json:"n"`    // trials that have it
	// Infinite is how many of those have no finite value, as a percentile among failed
	// requests.
	Infinite int `json:"infinite,omitempty"`
}

// An Accept says that what a run found is the new normal of its cells.
type Accept struct {
	Date time.Time `json:"date"` // when somebody said so, UTC
	Run  string    `json:"run_id"`
	Cell string    `json:"cell_id,omitempty"` // "" for all cells of the run
	Note string    `json:"note,omitempty"`
}

// A line is one of these.
type line struct {
	Format  string  `json:"format,omitempty"`
	Version int     `json:"version,omitempty"`
	Night   *Night  `json:"night,omitempty"`
	Accept  *Accept `json:"accept,omitempty"`

	Settings *Settings `json:"settings,omitempty"`
}
