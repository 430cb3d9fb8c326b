package runpod

import (
	"fmt"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/runpodapi"
	"sweep.dev/sweep/engine/catalog"
)

// runpodID returns what RunPod calls a GPU of the catalogue.
func runpodID(name string) (string, error) {
	if _, ok := catalog.GPUByName(name); !ok {
		return "", fmt.Errorf("%w: the catalogue has no GPU %q (sweep list gpus)", backends.ErrSpec, name)
	}
	id, ok := runpodapi.GPUID(name)
	if !ok {
		return "", fmt.Errorf("%w: RunPod has no %s", backends.ErrSpec, name)
	}
	return id, nil
}

// catalogName returns a GPU of RunPod's in the catalogue; the id itself where it is
// not there.
func catalogName(id string) string {
	if name, ok := runpodapi.GPUName(id); ok {
		return name
	}
	return id
}
