//go:build !linux

package epoll

import (
	"context"

	"sweep.dev/sweep/load"
)

func supported() error { return unsuitable("it needs Linux") }

// Run implements [load.Driver]: it is never reached, because New fails.
func (d *Driver) Run(context.Context, load.Source, load.Recorder, load.Options) (load.Health, error) {
	return load.Health{}, supported()
}
