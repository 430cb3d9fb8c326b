package docker

import "sweep.dev/sweep/backends"

// ErrPull is a pull that may work the next time.
var ErrPull = errPull

// LetGo ends everything that looks after a deployment, as the end of this
// process would.
func LetGo(d backends.Deployment) { d.(interface{ LetGo() }).LetGo() }
