package kubernetes

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"sweep.dev/sweep/backends/kubernetes/stack"
	"sweep.dev/sweep/engine/catalog"
	"sweep.dev/sweep/internal/kubeapi"
	"sweep.dev/sweep/internal/netguard"
)

// hardware is what a stack runs on, and with which release of its engine.
type hardware struct {
	gpu     string // "" if no node says it, or none may be read
	gpus    int
	version string
}

// productLabels are labels of a node that name its GPU, the best first: those of the
// vendors' feature discovery, then of clouds.
var productLabels = []string{"nvidia.com/gpu.product", "amd.com/gpu.product-name", "cloud.google.com/gke-accelerator", "karpenter.k8s.aws/instance-gpu-name"}

// hardwareOf counts the GPUs of a stack and reads their names from the nodes that its
// pods are bound to. Nodes are the cluster's: often they may not be read, and then the
// GPU is not known.
func (d *deployment) hardwareOf(ctx context.Context, s *stack.Stack) (h hardware) {
	nodes := map[string]bool{}
	for _, p := range s.Pods() {
		for i := range p.Containers {
			if n := count(p.Containers[i].GPUs); n > 0 {
				h.gpus += n
				nodes[p.Node] = true
			}
		}
	}
	names := map[string]bool{}
	for _, node := range slices.Sorted(maps.Keys(nodes)) {
		var object struct {
			Metadata kubeapi.Meta `json:"metadata"`
		}
		if node == "" || d.api.Get(ctx, "/api/v1/nodes/"+url.PathEscape(node), &object) != nil {
			return h // of some nodes alone it would be a guess
		}
		product := ""
		for _, key := range productLabels {
			product = cmp.Or(product, object.Metadata.Labels[key])
		}
		if product == "" {
			return h
		}
		names[catalog.NameOfLabel(product)] = true
	}
	h.gpu = strings.Join(slices.Sorted(maps.Keys(names)), "+")
	return h
}

// count returns how many accelerators a text as "nvidia.com/gpu=2" has.
func count(limits string) (n int) {
	for part := range strings.SplitSeq(limits, ", ") {
		_, number, _ := strings.Cut(part, "=")
		if v, err := strconv.Atoi(number); err == nil {
			n += v
		}
	}
	return n
}

// digests returns what of each role ran: one digest if all containers have the same, else
// those of each role and container.
func digests(s *stack.Stack) string {
	by := map[string]string{}
	for i := range s.Roles {
		for _, p := range s.Roles[i].Pods {
			for _, c := range p.Containers {
				if _, digest, ok := strings.Cut(c.ImageID, "@"); ok {
					by[s.Roles[i].Name+"/"+c.Name+"="+digest] = digest
				} else if strings.HasPrefix(c.ImageID, "sha256:") {
					by[s.Roles[i].Name+"/"+c.Name+"="+c.ImageID] = c.ImageID
				}
			}
		}
	}
	if one := slices.Compact(slices.Sorted(maps.Values(by))); len(one) == 1 {
		return one[0]
	}
	return strings.Join(slices.Sorted(maps.Keys(by)), " ")
}

// versionTime bounds the question for a release.
const versionTime = 5 * time.Second

// versionOf returns the release that the engines of the stack say that they have; "" if none
// says one. Several are joined.
func (d *deployment) versionOf(ctx context.Context) string {
	found := map[string]bool{}
	for _, role := range slices.Sorted(maps.Keys(d.places)) {
		if p := d.places[role][0]; slices.Contains(engines, p.role) && p.why == "" {
			if v := askVersion(ctx, p.host); v != "" {
				found[v] = true
			}
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(found)), "+")
}

func askVersion(ctx context.Context, h *podHost) string {
	client := netguard.Client(h.Dial, versionTime)
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.URL()+"/version", http.NoBody)
	if err != nil {
		return ""
	}
	resp, err := client.Do(req)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	var answer struct {
		Version string `json:"version"`
	}
	if resp.StatusCode != http.StatusOK || json.NewDecoder(io.LimitReader(resp.Body, 64<<10)).Decode(&answer) != nil {
		return ""
	}
	return fmt.Sprintf("%.60s", answer.Version)
}
