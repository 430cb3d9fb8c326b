package runpodtest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"sweep.dev/sweep/engine/catalog"
)

// smiPath is where a container's nvidia-smi asks. It is no part of the API.
const smiPath = "/emulator/nvidia-smi/"

// smiProgram is nvidia-smi in a container.
const smiProgram = `n=$#
for a do set -- "$@" --data-urlencode "arg=$a"; done
shift "$n"
if command -v curl >/dev/null; then
	exec curl -sS --fail-with-body -G "$@" '{smi}'
fi
exec python3 -c '
import sys, urllib.error, urllib.parse, urllib.request
args = [("arg", a[4:]) for a in sys.argv[2:] if a.startswith("arg=")]
try:
    print(urllib.request.urlopen(sys.argv[1] + "?" + urllib.parse.urlencode(args)).read().decode(), end="")
except urllib.error.HTTPError as e:
    print(e.read().decode(), end="")
    sys.exit(9)
' '{smi}' "$@"
`

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// nvidiaSMI is nvidia-smi of a pod: what its engine says where that is a
// simulated one, which knows; else that of an idle GPU.
func (e *Emulator) nvidiaSMI(w http.ResponseWriter, r *http.Request) {
	id := strings.TrimPrefix(r.URL.Path, smiPath)
	query := url.Values{}
	for _, a := range r.URL.Query()["arg"] {
		name, value, _ := strings.Cut(a, "=")
		switch name {
		case "--query-gpu":
			query.Set("query", value)
		case "--format":
			query.Set("format", value)
		case "-x":
			query.Set("xml", "1")
		}
	}
	e.mu.Lock()
	p := e.find(id)
	var ports []int
	count, gpu := 0, gpuType{}
	if p != nil {
		count, gpu = p.count, p.gpu
		for _, n := range slices.Concat(privatePorts(p.ports, "tcp"), privatePorts(p.ports, "http")) {
			if n != 22 {
				ports = append(ports, p.hostPorts[n])
			}
		}
	}
	e.mu.Unlock()
	if count == 0 {
		http.Error(w, "No devices were found", http.StatusInternalServerError)
		return
	}
	for _, port := range ports {
		if len(query) == 0 {
			break
		}
		if out, ok := askEngine(r.Context(), port, query); ok {
			fmt.Fprint(w, out)
			return
		}
	}
	if query.Get("query") == "" {
		fmt.Fprintf(w, "NVIDIA-SMI version  : 590.48.01\nDRIVER version      : 590.48.01\nCUDA Version        : 13.0\nGPU 0: %s\n", gpu.id)
		return
	}
	out, unknown := idleGPU(gpu, count, query.Get("query"), query.Get("format"))
	if unknown != "" {
		http.Error(w, fmt.Sprintf("Field %q is not a valid field to query.", unknown), http.StatusBadRequest)
		return
	}
	fmt.Fprint(w, out)
}

func askEngine(ctx context.Context, port int, query url.Values) (string, bool) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	at := fmt.Sprintf("http://127.0.0.1:%d/sim/nvidia-smi?%s", port, query.Encode())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return "", false
	}
	resp, err := loopback().RoundTrip(r)
	if err != nil {
		return "", false
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return string(b), err == nil && resp.StatusCode == http.StatusOK
}

// idleGPU returns the table of GPUs that do nothing, or the first field that it does
// not have.
func idleGPU(g gpuType, count int, fields, format string) (table, unknown string) {
	mib, watts := int64(g.memory)<<10, 300.0
	if c, ok := catalog.GPUByName(g.catalogName()); ok {
		mib, watts = c.MemoryMiB, c.TDP
	}
	var b strings.Builder
	names := strings.Split(fields, ",")
	if !strings.Contains(format, "noheader") {
		b.WriteString(strings.Join(names, ", ") + "\n")
	}
	unit := func(n any, u string) string {
		if strings.Contains(format, "nounits") {
			return fmt.Sprint(n)
		}
		return fmt.Sprint(n, " ", u)
	}
	for i := range count {
		var row []string
		for _, name := range names {
			switch strings.TrimSpace(name) {
			case "index":
				row = append(row, strconv.Itoa(i))
			case "count":
				row = append(row, strconv.Itoa(count))
			case "name", "gpu_name":
				row = append(row, g.id)
			case "uuid", "gpu_uuid":
				row = append(row, fmt.Sprintf("GPU-%s-%d", digest(g.id)[:20], i))
			case "driver_version":
				row = append(row, "590.48.01")
			case "timestamp":
				row = append(row, time.Now().Format("2006/01/02 15:04:05.000"))
			case "memory.total":
				row = append(row, unit(mib, "MiB"))
			case "memory.used":
				row = append(row, unit(1, "MiB"))
			case "memory.free":
				row = append(row, unit(mib-1, "MiB"))
			case "utilization.gpu", "utilization.memory":
				row = append(row, unit(0, "%"))
			case "power.draw", "power.draw.average", "power.draw.instant":
				row = append(row, unit(watts/10, "W"))
			case "power.limit", "enforced.power.limit":
				row = append(row, unit(watts, "W"))
			case "temperature.gpu":
				row = append(row, "31")
			case "pstate":
				row = append(row, "P8")
			case "compute_cap", "serial", "fan.speed", "temperature.memory", "mig.mode.current", "persistence_mode",
				"pci.bus_id", "clocks.sm", "clocks.current.sm", "clocks.gr", "clocks.mem", "clocks.max.sm":
				row = append(row, "[N/A]")
			default:
				return "", strings.TrimSpace(name)
			}
		}
		b.WriteString(strings.Join(row, ", ") + "\n")
	}
	return b.String(), ""
}
