package runpodapi

import "time"

// Statuses of a pod.
const (
	StatusRunning    = "RUNNING"
	StatusExited     = "EXITED"
	StatusError      = "ERROR"
	StatusTerminated = "TERMINATED"
)

// A Pod is a pod as RunPod's API describes it.
type Pod struct {
	ID           string            `json:"id"`
	Name         string            `json:"name"`
	Image        string            `json:"image"`
	Status       string            `json:"status"`
	Env          map[string]string `json:"env"`
	Ports        []string          `json:"ports"`
	GPU          *PodGPU           `json:"gpu"`
	Cloud        string            `json:"cloud"`
	DataCenterID *string           `json:"dataCenterId"`
	// Cost is USD per hour. A stopped pod may keep it, and a new one may not
	// have it yet.
	Cost      float64  `json:"cost"`
	Locked    bool     `json:"locked"`
	Runtime   *Runtime `json:"runtime"` // nil, or empty, until the container runs
	CreatedAt string   `json:"createdAt"`
}

// Since returns when the pod was made; zero if that cannot be read. One date in an
// unknown form must not make the whole account unreadable.
func (p Pod) Since() time.Time {
	t, err := time.Parse(time.RFC3339, p.CreatedAt)
	if err != nil {
		return time.Time{}
	}
	return t
}

// Alive reports whether the pod is still something to give back.
func (p Pod) Alive() bool { return p.Status != StatusTerminated }

// A PodGPU is what a pod has, or is to have.
type PodGPU struct {
	ID    string `json:"id"`
	Count int    `json:"count"`
	// Sent only where a plan asks for it.
	MinCUDA      string   `json:"minCudaVersion,omitempty"`
	AllowedCUDAs []string `json:"allowedCudaVersions,omitempty"`
}

// A Runtime describes a container; it may be empty before one runs.
type Runtime struct {
	Uptime *int `json:"uptime"` // seconds since the container started
	// GPUs is nil if the answer does not say, and empty if there are none.
	GPUs []struct {
		Util int `json:"util"`
	} `json:"gpus"`
	Ports []PortMapping `json:"ports"`
}

// Runs reports whether the container does: an answer may have a runtime that is
// empty before.
func (r *Runtime) Runs() bool { return r != nil && (r.Uptime != nil || len(r.Ports) > 0) }

// A PortMapping is where a container's port is reached. Undeclared ports of
// RunPod's own are among them.
type PortMapping struct {
	Private int     `json:"private"`
	Public  *int    `json:"public"`
	Type    string  `json:"type"`
	IP      *string `json:"ip"`
}

// Mapped returns the public address of a container's TCP port.
func (r *Runtime) Mapped(private int) (ip string, port int, ok bool) {
	if r == nil {
		return "", 0, false
	}
	for _, m := range r.Ports {
		if m.Private == private && m.Type == "tcp" && m.IP != nil && *m.IP != "" && m.Public != nil && *m.Public > 0 {
			return *m.IP, *m.Public, true
		}
	}
	return "", 0, false
}

// A podList is one page of the account. The first published version had no
// pages; the names that a cursor may have are those that other lists use.
type podList struct {
	Pods       []Pod  `json:"pods"`
	NextCursor string `json:"nextCursor"`
	Cursor     string `json:"cursor"`
}

func (l podList) next() string {
	if l.NextCursor != "" {
		return l.NextCursor
	}
	return l.Cursor
}

// A CreateRequest is the body of POST /pods.
type CreateRequest struct {
	Name        string            `json:"name"`
	Image       string            `json:"image"`
	Args        string            `json:"args,omitempty"`
	Disk        int               `json:"disk"`
	Ports       []string          `json:"ports"`
	Env         map[string]string `json:"env"`
	Registry    string            `json:"registry,omitempty"`
	Cloud       string            `json:"cloud"`
	DataCenters []string          `json:"dataCenterIds,omitempty"`
	GPU         PodGPU            `json:"gpu"`
	Mounts      *Mounts           `json:"mounts,omitempty"`
}

// Mounts are the disks of a pod: one of the two kinds.
type Mounts struct {
	Persistent *PersistentMount `json:"persistent,omitempty"`
	Network    []NetworkMount   `json:"network,omitempty"`
}

// A PersistentMount is a disk of the pod's host.
type PersistentMount struct {
	Size int    `json:"size"`
	Path string `json:"path"`
}

// A NetworkMount is a network volume.
type NetworkMount struct {
	VolumeID string `json:"volumeId"`
	Path     string `json:"path"`
}

type actionRequest struct {
	Action string `json:"action"`
}

type gpuList struct {
	GPUs []GPUType `json:"gpus"`
}

// A GPUType is an entry of the catalogue. Prices are for one GPU and hour.
type GPUType struct {
	ID           string             `json:"id"`
	Price        map[string]float64 `json:"price"`    // by cloud, in lower case
	MaxCount     map[string]int     `json:"maxCount"` // "
	Availability string             `json:"availability"`
	DataCenters  []struct {
		ID           string `json:"id"`
		Availability string `json:"availability"`
	} `json:"dataCenters"`
}

type billing struct {
	Metadata struct {
		Totals struct {
			Total float64 `json:"totalAmount"`
		} `json:"totals"`
	} `json:"metadata"`
}

// A problem is an error of the API (RFC 9457). There is no code in it to branch
// on, only text.
type problem struct {
	Title  string   `json:"title"`
	Detail string   `json:"detail"`
	Errors []string `json:"errors"`
}

// A LogLine is one line of a pod's log.
type LogLine struct {
	Time   string `json:"ts"`
	Source string `json:"source"`
	Line   string `json:"line"`
}
