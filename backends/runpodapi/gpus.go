package runpodapi

// gpuIDs are what RunPod calls GPUs of the catalogue, from its own table
// (https://docs.runpod.io/references/gpu-types). It has no others of them.
var gpuIDs = map[string]string{
	"rtx-2000-ada": "NVIDIA RTX 2000 Ada Generation",
	"l4":           "NVIDIA L4",
	"l40s":         "NVIDIA L40S",
	"a100-80gb":    "NVIDIA A100-SXM4-80GB",
	"h100":         "NVIDIA H100 80GB HBM3",
	"h200":         "NVIDIA H200",
	"b200":         "NVIDIA B200",
	"mi300x":       "AMD Instinct MI300X OAM",
}

// GPUID returns what RunPod calls a GPU of the catalogue, if it has that.
func GPUID(name string) (id string, ok bool) {
	id, ok = gpuIDs[name]
	return id, ok
}

// GPUName returns what the catalogue calls a GPU of RunPod's, if it has that.
func GPUName(id string) (name string, ok bool) {
	for name, of := range gpuIDs {
		if of == id {
			return name, true
		}
	}
	return "", false
}
