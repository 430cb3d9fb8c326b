package plan

import (
	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/internal/secret"
)

// A Server is what one deployment runs: everything that a change of would need
// a new launch.
type Server struct {
	Engine        string // the key in the plan
	Profile       string // the engine profile's name
	Model         string
	ModelRevision string
	Served        string // the name that the server answers to; default Model
	GPU           string
	GPUCount      int      // of all roles and replicas; 0 for engines that need none
	Image         string   // "" for the profile's
	Entrypoint    []string // of Image; nil: the profile's
	Command       []string // nil: the profile's
	Args          []Arg    // sorted by name
	Env           map[string]secret.String
	CPUs          []int
	Roles         map[string]Role // what is different for single roles; nil for none
	// Manifest is the values of places in the backend's manifests, by their paths; nil
	// for none.
	Manifest map[string]any
	// ProfileSHA256 is the digest of the file that gave the profile, "" for a
	// built-in one.
	ProfileSHA256 string

	// RoleGPUs is how many GPUs one replica of each role has, 0 for a frontend or
	// a router; nil if only GPUCount is known.
	RoleGPUs map[string]int `yaml:"-"`

	// AnyModel says that answers may name any model: served_model_name is [AnyModel].
	AnyModel bool `yaml:"-"`
}

// AnyModel is the served_model_name of a server that answers under other names than it is asked
// for.
const AnyModel = "any"

// An Arg is one engine argument: --name value.
type Arg = engine.Arg

// A Cell is one point of the matrix.
type Cell struct {
	ID       string    // 12 hex digits: see cellID
	Index    int       // place in the plan's order, from 0
	Settings []Setting // every axis, in the plan's order
	Server   Server
	Load     Load // resolved
}

// A Deployment is all cells that share a server.
type Deployment struct {
	ID     string // 10 hex digits: short hash of Server
	Server Server
	Cells  []Cell // in the order in which they are to run
}

// Setting returns the cell's value of an axis by the name in the file; nil for none.
func (c Cell) Setting(axis string) Value {
	for _, s := range c.Settings {
		if s.Axis.Name == axis {
			return s.Value
		}
	}
	return nil
}

// Level returns the value of an axis of numbers in a cell; 0 if it has none.
func (c Cell) Level(axis string) float64 {
	n, _ := Number(c.Setting(axis))
	return n
}
