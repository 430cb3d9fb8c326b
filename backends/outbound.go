package backends

import "net/url"

// An Outbound backend sends what its part of a plan says to hosts that are no servers of
// its own.
type Outbound interface {
	// Destinations returns where it sends what. It connects to nothing.
	Destinations() (Destinations, error)
}

// Destinations are the hosts of a backend that a plan can choose.
type Destinations struct {
	// Requests is what gets the load with its headers and bodies; nil: the servers that
	// the plan starts.
	Requests *url.URL
	// Key is what gets the backend's key; nil if it stays here, as the name of a file.
	Key *url.URL
	// Service is true if Key is the API of a provider, and Default the variable that holds
	// the key of a plan that names none.
	Service bool
	Default string
	// Cluster is the API server of a cluster, whose stack gets further tokens; nil for none.
	Cluster *url.URL
	// Registry returns the host that the credentials of an image's registry are sent to;
	// nil if the plan has no such credentials.
	Registry func(image string) (string, error)
}
