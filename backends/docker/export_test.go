package docker

import "sweep.dev/sweep/backends"

// LetGo ends everything that looks after a deployment, as the end of this
// process would.
func LetGo(d backends.Deployment) { d.(*deployment).letGo() }
