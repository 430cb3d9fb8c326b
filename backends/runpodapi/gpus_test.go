package runpodapi

import (
	"testing"

	"sweep.dev/sweep/engine/catalog"
)

func TestGPUs_areInTheCatalogue(t *testing.T) {
	for name, id := range gpuIDs {
		if _, ok := catalog.GPUByName(name); !ok {
			t.Errorf("the catalogue has no %s", name)
		}
		if got, ok := GPUName(id); !ok || got != name {
			t.Errorf("%s is %q, want %s", id, got, name)
		}
	}
}
