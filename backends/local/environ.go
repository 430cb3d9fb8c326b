package local

import (
	"slices"
	"strings"

	"sweep.dev/sweep/internal/secret"
)

// PassedNames returns the table of the variables that a server gets from sweep's own
// environment, without their values being part of the plan. A name that ends
// with * stands for all that begin so. docs/run.md has the same table.
//
// They say where things are on this machine. A variable that changes how a
// server computes, such as NCCL_* or VLLM_*, belongs in the plan: it is part of
// what was measured.
func PassedNames() []string {
	return []string{
		// The machine and its user.
		"PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "TZ", "LANG", "LANGUAGE", "LC_*",
		// Where programs find their libraries, models and caches.
		"LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "XDG_CACHE_HOME", "HF_HOME", "HF_HUB_CACHE",
		// Accelerators.
		"CUDA_*", "NVIDIA_*", "ROCR_*", "ROCM_*", "HIP_*", "HSA_*",
		// How to reach the network, in either letter case.
		"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
		"SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
	}
}

// Passed returns what a server gets of an environment, given and returned as
// name=value. A name that says credential is never passed: NVIDIA_API_KEY is no
// setting of an accelerator.
func Passed(environ []string) map[string]string {
	table := PassedNames()
	out := make(map[string]string)
	for _, variable := range environ {
		name, value, ok := strings.Cut(variable, "=")
		if !ok || secret.Named(name) {
			continue
		}
		if slices.ContainsFunc(table, func(pattern string) bool {
			prefix, many := strings.CutSuffix(pattern, "*")
			return pattern == name || many && strings.HasPrefix(name, prefix)
		}) {
			out[name] = value
		}
	}
	return out
}
