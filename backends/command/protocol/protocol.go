// Package protocol is what package command says to a provider's program, and what it
// answers: JSON, one object on stdin and one on stdout. docs/providers.md says when.
package protocol

import "time"

// Version is the protocol's: of every request, and of every answer.
const Version = 1

// The operations: the program's only argument.
const (
	OpCreate = "create"
	OpFind   = "find"
	OpDelete = "delete"
	OpAttach = "attach"
)

// A Create asks for one unit: a place that runs one replica of a role.
type Create struct {
	Version  int               `json:"version" doc:"1."`
	Name     string            `json:"name" doc:"Unique name of the unit: the deployment's name, and for all but its first unit a dot, the role, a dot and the replica."`
	Marks    map[string]string `json:"marks" doc:"Marks of the owner. Keep them with the unit, and return them from find. They are in env too."`
	Role     string            `json:"role" doc:"The role that it runs."`
	Replica  int               `json:"replica" doc:"Number of the replica in its role, from 0."`
	Argv     []string          `json:"argv" doc:"Command to run, instead of the image's ENTRYPOINT. With bootstrap it is sweep's script, which runs the server and ends it at its expiry time."`
	Env      map[string]string `json:"env" doc:"Environment, added to that of the place. It has credentials."`
	Files    map[string]string `json:"files,omitempty" doc:"Contents of files by name, to write into files_dir before the start. Empty with bootstrap: its script writes them."`
	FilesDir string            `json:"files_dir,omitempty" doc:"Folder of the files."`
	Dir      string            `json:"dir,omitempty" doc:"Working directory. Default: that of the place."`
	Image    string            `json:"image,omitempty" doc:"Container image of the engine."`
	GPU      string            `json:"gpu,omitempty" doc:"Name of the GPU that the plan asks for."`
	GPUs     int               `json:"gpus" doc:"How many of them."`
	CPUs     []int             `json:"cpus,omitempty" doc:"CPUs that it may run on. Empty means all."`
	Port     int               `json:"port" doc:"Port on which it listens for requests."`
	Ports    map[string]int    `json:"ports,omitempty" doc:"Further ports, by name. agent is the port of sweep's script."`
	Expires  time.Time         `json:"expires" doc:"Expiry time: the unit must be gone then, even if sweep is gone."`
	Grace    float64           `json:"grace_s" doc:"Seconds that it gets between SIGTERM and SIGKILL."`
	Settings map[string]string `json:"settings,omitempty" doc:"Settings of the plan for the program."`
}

// A Find asks for units.
type Find struct {
	Version int    `json:"version" doc:"1."`
	Name    string `json:"name" doc:"Name of a deployment: answer the units with this name, or whose name begins with it and a dot. Empty asks for all units with marks of sweep."`
}

// A Delete asks for the end of a unit.
type Delete struct {
	Version int     `json:"version" doc:"1."`
	ID      string  `json:"id" doc:"The unit's."`
	Name    string  `json:"name" doc:"Its name, or the deployment's."`
	Grace   float64 `json:"grace_s" doc:"Seconds that it gets between SIGTERM and SIGKILL."`
}

// An Attach asks for what a replica says, and for its end.
type Attach struct {
	Version int    `json:"version" doc:"1."`
	ID      string `json:"id" doc:"The unit's."`
	Name    string `json:"name" doc:"Its name."`
	Offset  int64  `json:"offset" doc:"Bytes of its output that sweep already has."`
}

// An Answer is what the program prints.
type Answer struct {
	Version   int        `json:"version" doc:"1."`
	Error     *Problem   `json:"error,omitempty" doc:"The error. Absent if the call succeeded."`
	Instance  *Instance  `json:"instance,omitempty" doc:"The unit that create made."`
	Instances []Instance `json:"instances,omitempty" doc:"The units that find found, running or not."`
}

// An Instance is a unit as its provider knows it.
type Instance struct {
	ID          string            `json:"id" doc:"Id at the provider, unique to the unit."`
	Name        string            `json:"name,omitempty" doc:"Name of the unit. Required from find."`
	Marks       map[string]string `json:"marks,omitempty" doc:"Marks as create got them. Required from find."`
	State       string            `json:"state,omitempty" doc:"waiting for its place, running, or ended but still there. Empty means running." enum:"waiting,running,ended"`
	Host        string            `json:"host,omitempty" doc:"Name or address at which its peers and this machine reach its ports. Required once it runs."`
	Reach       map[string]string `json:"reach,omitempty" doc:"host:port at which this machine reaches a port, by port number, if it differs."`
	Path        string            `json:"path,omitempty" doc:"Network path from here. Empty means direct." enum:"direct,tunnel,proxy"`
	GPU         string            `json:"gpu,omitempty" doc:"Catalogue name of the GPU that the unit has."`
	Since       time.Time         `json:"since,omitzero" doc:"Time from which the unit costs money."`
	USDPerHour  float64           `json:"usd_per_hour,omitempty" doc:"Price of the unit per hour."`
	ImageDigest string            `json:"image_digest,omitempty" doc:"Digest of the image that it runs, sha256:..."`
	Env         map[string]string `json:"env,omitempty" doc:"Environment as create got it. Without it sweep cannot adopt a kept unit."`
}

// A Line is what attach prints one of after another: one of its fields.
type Line struct {
	Log   []byte   `json:"log,omitempty" doc:"More of its output, in base64."`
	Exit  *Exit    `json:"exit,omitempty" doc:"The end of the unit, in the last line."`
	Error *Problem `json:"error,omitempty" doc:"Why attach can never work, in the last line."`
}

// An Exit is the end of a replica.
type Exit struct {
	Code int  `json:"code" doc:"Exit status, or 128 + the number of the signal, as in shells."`
	OOM  bool `json:"oom,omitempty" doc:"The kernel ended it because it ran out of memory."`
}

// A Problem is why something was not done.
type Problem struct {
	Class   string `json:"class" doc:"Class of the error." enum:"capacity,refused,not_found,spec,taken,unsure,failed"`
	Message string `json:"message" doc:"Message for people."`
}
