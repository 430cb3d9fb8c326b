package backends

// A Tenant is a backend that works in a namespace of a Kubernetes cluster, so that a pod
// needs an account with rights there to run a plan. Optional, found by type assertion.
type Tenant interface {
	// Grant is what the account of a pod of the same cluster needs. Its error says what
	// of the configuration has no meaning there.
	Grant() (Grant, error)
}

// A Grant is rights in one namespace, as a Role has them.
type Grant struct {
	Namespace string
	Rules     []Rule
}

// A Rule permits every verb on every resource.
type Rule struct {
	Group     string // of the API, "" for core
	Resources []string
	Verbs     []string
}
