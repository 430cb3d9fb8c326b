package backends

import (
	"context"
	"time"
)

// A State is where a pod stands in its life.
type State string

// The states in the order of a pod's life. Every state but Gone is owed:
// something may exist that has to be given back.
const (
	Intended   State = "intent"        // something may be made under this name
	Sent       State = "create_sent"   // the request that makes it is on its way
	Created    State = "created"       // the provider has said its id
	Ready      State = "ready"         // its engine has answered
	Kept       State = "kept"          // left running on purpose, until Expires
	Stopped    State = "stopped"       // by a person; its disk is still billed
	Draining   State = "draining"      // nothing new is asked of it
	DeleteSent State = "delete_sent"   // the request that ends it is on its way
	Gone       State = "gone_verified" // ended, and seen to be gone
)

// A Transition is one step in a pod's life. Fields that a transition leaves out stay
// what an earlier transition of the same pod said.
type Transition struct {
	Pod   string `json:"pod"` // Spec.Pod
	State State  `json:"state"`
	// Kind is the backend's. With the Intent.
	Kind string `json:"kind,omitempty"`
	// Name is what the pod will be called at its provider, and nothing else
	// there: by it an answer that never came can be looked for. With the Intent.
	Name string `json:"name,omitempty"`
	// At is what finds the provider again (an address, a socket, an API's base
	// URL), never a credential. With the Intent.
	At map[string]string `json:"at,omitempty"`
	// Expires is when the pod has to be gone. With the Intent, and with Kept.
	Expires *time.Time `json:"expires,omitempty"`
	// USDPerHour is what it costs. With the Intent or with Created.
	USDPerHour float64 `json:"usd_per_hour,omitempty"`
	// Ref names it. With Created.
	Ref *Ref `json:"ref,omitempty"`
}

// A Ledger records every transition of a pod's life on disk before its side effect,
// so that no crash can lose a pod. A backend's Launch records Intended, Sent and
// Created, which is recorded again with the ref of all so far for each further
// part, and Gone where it has released what it took or where the provider has
// certainly made nothing: the same pod may then be intended again under another
// name. The caller of Launch records everything else.
type Ledger interface {
	// Record returns after the transition is durable. Intended is refused once ctx is
	// over; every other transition has happened and is recorded even then.
	Record(ctx context.Context, a Transition) error
}
