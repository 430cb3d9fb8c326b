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
	Name     string            `json:"name" doc:"What the unit is called: no other ever is. The deployment's name, and for all but its first unit a dot, the role, a dot and the replica."`
	Marks    map[string]string `json:"marks" doc:"Whose it is: to be kept with the unit, and said by find. They are in env too."`
	Role     string            `json:"role" doc:"The role that it runs."`
	Replica  int               `json:"replica" doc:"Which of its role, from 0."`
	Argv     []string          `json:"argv" doc:"What to run, in place of the image's ENTRYPOINT; with bootstrap, sweep's script, which runs the server and ends it at its time."`
	Env      map[string]string `json:"env" doc:"Its environment, beyond what the place has by itself. Credentials are in it."`
	Files    map[string]string `json:"files,omitempty" doc:"Texts by the names of files, to be written into files_dir before it starts. With bootstrap there are none: its script does that."`
	FilesDir string            `json:"files_dir,omitempty" doc:"Folder of the files."`
	Dir      string            `json:"dir,omitempty" doc:"Working directory; the place's own if there is none."`
	Image    string            `json:"image,omitempty" doc:"Container image of the engine."`
	GPU      string            `json:"gpu,omitempty" doc:"Name of the GPU that the plan asks for."`
	GPUs     int               `json:"gpus" doc:"How many of them."`
	CPUs     []int             `json:"cpus,omitempty" doc:"CPUs that it may run on; none is all."`
	Port     int               `json:"port" doc:"Where it will listen for requests."`
	Ports    map[string]int    `json:"ports,omitempty" doc:"Its further ports, by name; agent is that of sweep's script."`
	Expires  time.Time         `json:"expires" doc:"When it has to be gone, even if sweep is."`
	Grace    float64           `json:"grace_s" doc:"Seconds that it gets between SIGTERM and SIGKILL."`
	Settings map[string]string `json:"settings,omitempty" doc:"The plan's words to the program."`
}

// A Find asks for units.
type Find struct {
	Version int    `json:"version" doc:"1."`
	Name    string `json:"name" doc:"A deployment's: what has this name, or begins with it and a dot. Nothing asks for all that have marks of sweep."`
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
	Offset  int64  `json:"offset" doc:"Bytes of its output that have come already."`
}

// An Answer is what the program prints.
type Answer struct {
	Version   int        `json:"version" doc:"1."`
	Error     *Problem   `json:"error,omitempty" doc:"Why it was not done; without it, it was."`
	Instance  *Instance  `json:"instance,omitempty" doc:"What create has made."`
	Instances []Instance `json:"instances,omitempty" doc:"What find has found, running or not."`
}

// An Instance is a unit as its provider knows it.
type Instance struct {
	ID          string            `json:"id" doc:"The provider's; of two units never the same."`
	Name        string            `json:"name,omitempty" doc:"The unit's; find has to say it."`
	Marks       map[string]string `json:"marks,omitempty" doc:"As create had them; find has to say them."`
	State       string            `json:"state,omitempty" doc:"waiting for its place, running, or ended and still there. Nothing is running." enum:"waiting,running,ended"`
	Host        string            `json:"host,omitempty" doc:"Name or address at which its ports are reached, by its peers and from here. Needed as soon as it runs."`
	Reach       map[string]string `json:"reach,omitempty" doc:"By the number of a port, the host:port at which that is reached from here, where it is another one."`
	Path        string            `json:"path,omitempty" doc:"How bytes travel from here; nothing is direct." enum:"direct,tunnel,proxy"`
	GPU         string            `json:"gpu,omitempty" doc:"The catalogue's name of the GPU that it really has."`
	Since       time.Time         `json:"since,omitzero" doc:"When it began to cost."`
	USDPerHour  float64           `json:"usd_per_hour,omitempty" doc:"What it costs."`
	ImageDigest string            `json:"image_digest,omitempty" doc:"Digest of the image that it runs, sha256:..."`
	Env         map[string]string `json:"env,omitempty" doc:"As create had it: without it a kept unit cannot be adopted."`
}

// A Line is what attach prints one of after another: one of its fields.
type Line struct {
	Log   []byte   `json:"log,omitempty" doc:"More of its output, in base64."`
	Exit  *Exit    `json:"exit,omitempty" doc:"It has ended: the last line."`
	Error *Problem `json:"error,omitempty" doc:"Why it can never be attached to: the last line."`
}

// An Exit is the end of a replica.
type Exit struct {
	Code int  `json:"code" doc:"Exit status; 128 and its number for a signal, as shells have it."`
	OOM  bool `json:"oom,omitempty" doc:"The kernel ended it for its memory."`
}

// A Problem is why something was not done.
type Problem struct {
	Class   string `json:"class" doc:"What it means to sweep." enum:"capacity,refused,not_found,spec,taken,unsure,failed"`
	Message string `json:"message" doc:"For a person."`
}
