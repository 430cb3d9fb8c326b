package runpodtest

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"sweep.dev/sweep/backends/runpodapi"
	"sweep.dev/sweep/engine/catalog"
)

// A gpuType is one row of the provider's catalogue.
type gpuType struct {
	id, name, pool string
	memory         int     // GB
	secure         float64 // USD per GPU and hour; 0 is not offered
	community      float64
	maxSecure      int
	maxCommunity   int
}

// gpuTypes are typical prices of 2026.
var gpuTypes = []gpuType{
	{"NVIDIA RTX 2000 Ada Generation", "RTX 2000 Ada", "", 16, 0.24, 0, 8, 0},
	{"NVIDIA RTX A4000", "RTX A4000", "AMPERE_16", 16, 0.25, 0.17, 8, 8},
	{"NVIDIA RTX 4000 Ada Generation", "RTX 4000 Ada", "ADA_24", 20, 0.28, 0, 8, 0},
	{"NVIDIA L4", "L4", "ADA_24", 24, 0.43, 0, 8, 0},
	{"NVIDIA GeForce RTX 3090", "RTX 3090", "AMPERE_24", 24, 0.50, 0.22, 8, 4},
	{"NVIDIA GeForce RTX 4090", "RTX 4090", "ADA_24", 24, 0.69, 0.34, 8, 4},
	{"NVIDIA GeForce RTX 5090", "RTX 5090", "ADA_32_PRO", 32, 0.94, 0.69, 8, 4},
	{"NVIDIA RTX PRO 4500 Blackwell", "RTX PRO 4500", "", 32, 0.72, 0, 8, 0},
	{"NVIDIA A40", "A40", "AMPERE_48", 48, 0.49, 0, 10, 0},
	{"NVIDIA RTX A6000", "RTX A6000", "AMPERE_48", 48, 0.79, 0.33, 8, 8},
	{"NVIDIA L40S", "L40S", "ADA_48_PRO", 48, 0.89, 0.79, 8, 4},
	{"NVIDIA RTX 6000 Ada Generation", "RTX 6000 Ada", "ADA_48_PRO", 48, 0.84, 0.74, 8, 8},
	{"NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX PRO 6000", "BLACKWELL_96", 96, 2.09, 1.69, 8, 4},
	{"NVIDIA A100 80GB PCIe", "A100 PCIe", "AMPERE_80", 80, 1.39, 1.19, 8, 8},
	{"NVIDIA A100-SXM4-80GB", "A100 SXM", "AMPERE_80", 80, 1.59, 1.39, 8, 8},
	{"NVIDIA H100 PCIe", "H100 PCIe", "ADA_80_PRO", 80, 2.49, 1.99, 8, 8},
	{"NVIDIA H100 80GB HBM3", "H100 SXM", "HOPPER_80", 80, 2.99, 2.69, 8, 8},
	{"NVIDIA H100 NVL", "H100 NVL", "ADA_80_PRO", 94, 2.79, 2.59, 8, 4},
	{"NVIDIA H200", "H200 SXM", "HOPPER_141", 141, 3.59, 0, 8, 0},
	{"NVIDIA B200", "B200", "BLACKWELL_180", 180, 5.98, 0, 8, 0},
	{"AMD Instinct MI300X OAM", "MI300X", "", 192, 2.49, 0, 8, 0},
}

func gpuByID(id string) (gpuType, bool) {
	i := slices.IndexFunc(gpuTypes, func(g gpuType) bool { return g.id == id })
	if i < 0 {
		return gpuType{}, false
	}
	return gpuTypes[i], true
}

// offer returns what one GPU costs in a cloud, and how many a pod may have.
func (g gpuType) offer(cloud string) (usd float64, most int) {
	if cloud == "COMMUNITY" {
		return g.community, g.maxCommunity
	}
	return g.secure, g.maxSecure
}

func (g gpuType) manufacturer() string {
	if strings.HasPrefix(g.id, "AMD") {
		return "AMD"
	}
	return "NVIDIA"
}

// catalogName returns what sweep's own catalogue, and so its simulator, calls it;
// the nearest in memory if it has no such GPU.
func (g gpuType) catalogName() string {
	if name, ok := runpodapi.GPUName(g.id); ok {
		return name
	}
	best := ""
	var off int64 = 1 << 62
	for _, c := range catalog.GPUs() {
		if d := max(c.MemoryMiB-int64(g.memory)<<10, int64(g.memory)<<10-c.MemoryMiB); d < off {
			best, off = c.Name, d
		}
	}
	return best
}

// A dataCenter is a place.
type dataCenter struct {
	id, name, region string
	globalNetwork    bool
	compliance       []string
}

var dataCenters = []dataCenter{
	{"EU-RO-1", "EU Romania 1", "EUROPE", true, []string{"GDPR", "ISO_IEC_27001"}},
	{"EU-SE-1", "EU Sweden 1", "EUROPE", true, []string{"GDPR"}},
	{"EU-NL-1", "EU Netherlands 1", "EUROPE", true, []string{"GDPR", "SOC_2_TYPE_2"}},
	{"US-KS-2", "US Kansas 2", "NORTH_AMERICA", true, []string{"SOC_2_TYPE_2", "ISO_IEC_27001"}},
	{"US-TX-3", "US Texas 3", "NORTH_AMERICA", true, []string{"SOC_2_TYPE_2"}},
	{"CA-MTL-1", "CA Montreal 1", "NORTH_AMERICA", false, []string{}},
	{"AP-JP-1", "AP Japan 1", "ASIA", false, []string{}},
}

// cudaVersions are what the hosts' drivers can do.
var cudaVersions = []string{"13.0", "12.9", "12.8", "12.4", "12.1"}

// plenty is the stock of what Options.Stock does not name.
const plenty = 64

// stock is how many GPUs of a type are free in a cloud. e.mu is held.
func (e *Emulator) free(id, cloud string) int {
	total := plenty
	if n, ok := e.opts.Stock[id]; ok {
		total = n
	}
	if n, ok := e.opts.Stock[id+"/"+cloud]; ok {
		total = n
	}
	for _, p := range e.pods {
		if p.holdsGPU() && !p.foreign && p.gpu.id == id && p.cloud == cloud {
			total -= p.count
		}
	}
	return max(0, total)
}

func level(free, count int) string {
	switch {
	case free < count:
		return "NONE"
	case free < 4:
		return "LOW"
	case free < 16:
		return "MEDIUM"
	}
	return "HIGH"
}

// A catalogQuery are the parameters of the catalogue of GPUs.
type catalogQuery struct {
	available bool
	count     int
	cloud     string
}

// parseCatalog reads them; it has answered if they are wrong.
func parseCatalog(c *call) (q catalogQuery, ok bool) {
	v := c.r.URL.Query()
	q.cloud, q.count = "SECURE", 1
	switch v.Get("include") {
	case "":
	case "AVAILABILITY":
		q.available = true
	default:
		c.invalid("query.include[0]: value must be 'AVAILABILITY'")
		return q, false
	}
	for _, name := range []string{"product", "count", "cloud", "minCudaVersion"} {
		if v.Has(name) && !q.available {
			c.fail(http.StatusBadRequest, name+" is valid only with include=AVAILABILITY")
			return q, false
		}
	}
	if q.available && !v.Has("product") {
		c.fail(http.StatusBadRequest, "product is required with include=AVAILABILITY")
		return q, false
	}
	for p := range strings.SplitSeq(v.Get("product"), ",") {
		if p != "" && p != "POD" && p != "CLUSTER" && p != "SERVERLESS" {
			c.invalid("query.product: value must be one of 'POD', 'CLUSTER', 'SERVERLESS'")
			return q, false
		}
	}
	if s := v.Get("count"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			c.invalid("query.count: minimum: got " + s + ", want 1")
			return q, false
		}
		q.count = n
	}
	if s := v.Get("cloud"); s != "" {
		if !slices.Contains(clouds, s) {
			c.invalid("query.cloud: value must be one of 'SECURE', 'COMMUNITY'")
			return q, false
		}
		q.cloud = s
	}
	if s := v.Get("minCudaVersion"); s != "" && !cudaPattern.MatchString(s) {
		c.invalid(fmt.Sprintf("query.minCudaVersion: '%s' is not major or major.minor", s))
		return q, false
	}
	return q, true
}

// row returns a GPU as the catalogue shows it. e.mu is held.
func (e *Emulator) row(g gpuType, q catalogQuery) map[string]any {
	row := map[string]any{
		"id": g.id, "name": g.name, "pool": nil, "manufacturer": g.manufacturer(), "memory": g.memory,
		"secure": g.secure > 0, "community": g.community > 0,
		"price":    map[string]any{"secure": g.secure, "community": g.community},
		"maxCount": map[string]any{"secure": g.maxSecure, "community": g.maxCommunity},
	}
	if g.pool != "" {
		row["pool"] = g.pool
	}
	if !q.available {
		return row
	}
	stock := "NONE"
	if usd, most := g.offer(q.cloud); usd > 0 && q.count <= most {
		stock = level(e.free(g.id, q.cloud), q.count)
	}
	places := []any{}
	for _, dc := range dataCenters {
		places = append(places, map[string]any{"id": dc.id, "name": dc.name, "availability": stock})
	}
	versions := []any{}
	for _, v := range cudaVersions {
		versions = append(versions, map[string]any{"version": v, "available": stock != "NONE"})
	}
	row["availability"], row["dataCenters"], row["cudaVersions"] = stock, places, versions
	return row
}

func (e *Emulator) listGPUs(c *call) {
	q, ok := parseCatalog(c)
	if !ok {
		return
	}
	rows := []any{}
	e.mu.Lock()
	for _, g := range gpuTypes {
		rows = append(rows, e.row(g, q))
	}
	e.mu.Unlock()
	c.json(http.StatusOK, map[string]any{"gpus": rows})
}

func (e *Emulator) getGPU(c *call) {
	g, known := gpuByID(c.id)
	if !known {
		c.notFound()
		return
	}
	q, ok := parseCatalog(c)
	if !ok {
		return
	}
	e.mu.Lock()
	row := e.row(g, q)
	e.mu.Unlock()
	c.json(http.StatusOK, row)
}

func (e *Emulator) listDataCenters(c *call) {
	v := c.r.URL.Query()
	include := strings.Split(v.Get("include"), ",")
	for _, i := range include {
		if i != "" && i != "GPU_AVAILABILITY" && i != "CPU_AVAILABILITY" {
			c.invalid("query.include: value must be one of 'GPU_AVAILABILITY', 'CPU_AVAILABILITY'")
			return
		}
	}
	rows := []any{}
	e.mu.Lock()
	for _, dc := range dataCenters {
		if only := v.Get("regions"); only != "" && !slices.Contains(strings.Split(only, ","), dc.region) {
			continue
		}
		if only := v.Get("globalNetwork"); only != "" && only != strconv.FormatBool(dc.globalNetwork) {
			continue
		}
		row := map[string]any{
			"id": dc.id, "name": dc.name, "region": dc.region, "globalNetwork": dc.globalNetwork,
			"networkVolumeTypes": []string{"STANDARD"}, "compliance": dc.compliance,
		}
		if slices.Contains(include, "GPU_AVAILABILITY") {
			stock := []any{}
			for _, g := range gpuTypes {
				stock = append(stock, map[string]any{"id": g.id, "name": g.name, "availability": level(e.free(g.id, "SECURE"), 1)})
			}
			row["gpuAvailability"] = stock
		}
		if slices.Contains(include, "CPU_AVAILABILITY") {
			row["cpuAvailability"] = []any{}
		}
		rows = append(rows, row)
	}
	e.mu.Unlock()
	c.json(http.StatusOK, map[string]any{"dataCenters": rows})
}
