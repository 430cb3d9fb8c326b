// Package outbound decides where the environment variables that a plan names may go. A
// plan may come from a stranger, so a key goes to its own host only.
package outbound

import (
	"regexp"
	"strings"
	"sync"
)

// A Kind is what becomes of a text of a plan.
type Kind uint8

// The kinds of places.
const (
	// Here is read on this machine, and stands in files of the run: a name, a path.
	Here Kind = iota
	// Server is what a server is started with: its environment, arguments and image.
	Server
	// Request is a part of what is sent to a server under load: a header, a body, a path.
	Request
	// Key is the backend's key: of the server under load, or of the provider's API.
	Key
	// Address names a host, and a path there.
	Address
	// Cluster is a token of a cluster's stack.
	Cluster
	// Registry is a credential of an image's registry.
	Registry
)

// A Place is a key of a plan that can hold ${VAR}.
type Place struct {
	Path string // * is any text, [] an index
	Goes Kind
}

// Places returns the table of places: of the plan itself, then of its plug-ins. Text that
// comes from other files (prompts, traces, engine profiles, manifests) holds no variables.
func Places() []Place {
	return []Place{
		{"name", Here},
		{"description", Here},
		{"model", Request},
		{"model_revision", Server},
		{"engine_files[]", Here},
		{"slo.*", Here},
		{"slo.*.expr", Here},
		{"compare.axis", Here},
		{"compare.baseline", Here},
		{"find.objectives.*", Here},

		{"matrix.engine[]", Here},
		{"matrix.model[]", Request},
		{"matrix.gpu[]", Here},
		{"matrix.gpu_count[]", Here},
		{"matrix.concurrency[]", Here},
		{"matrix.request_rate[]", Here},
		{"matrix.max_tokens[]", Here},
		{"matrix.input_tokens[]", Here},
		{"matrix.shared_prefix[]", Here},
		{"matrix.burstiness[]", Here},
		{"matrix.args.*", Server},
		{"matrix.env.*", Server},
		{"matrix.manifest.*", Server},
		{"matrix.include[].*", Request}, // one of them is model
		{"matrix.zip[][]", Here},
		{"matrix.exclude[]", Here},

		{"engines.*.profile", Here},
		{"engines.*.image", Server},
		{"engines.*.served_model_name", Request},
		{"engines.*.command[]", Server},
		{"engines.*.entrypoint[]", Server},
		{"engines.*.args.*", Server},
		{"engines.*.env.*", Server},
		{"engines.*.roles.*.image", Server},
		{"engines.*.roles.*.command[]", Server},
		{"engines.*.roles.*.entrypoint[]", Server},
		{"engines.*.roles.*.args.*", Server},
		{"engines.*.roles.*.env.*", Server},

		{"load.headers.*", Request},
		{"load.request_headers.*", Request},
		{"load.body.*", Request},
		{"load.sampling.stop[]", Request},
		{"load.prompts.system", Request},
		{"load.prompts.texts[]", Request},
		{"load.prompts.file", Here},
		{"load.prompts.pairs_file", Here},
		{"load.trace.file", Here},
		{"load.clients.namespace", Server},
		{"load.clients.image", Server},
		{"load.clients.base", Server},

		{"quality.body.*", Request},
		{"quality.file", Here},
		{"quality.baseline.*", Here},
		{"quality.lm_eval.metric", Here},
		{"quality.lm_eval.filter", Here},
		{"quality.lm_eval.files[].file", Here},
		{"quality.lm_eval.files[].of.*", Here},

		{"on_finish.webhook.url", Address},

		{"backend", Here},
		{"backend.url", Address},
		{"backend.base_url", Address},
		{"backend.proxy_url", Address},
		{"backend.host", Address},
		{"backend.roles.*[].metrics", Address},
		{"backend.key", Key},
		{"backend.headers.*", Request},
		{"backend.metrics_token", Cluster},
		{"backend.registry", Here},
		{"backend.registry.username", Registry},
		{"backend.registry.password", Registry},
		{"backend.passphrase", Here},
		{"backend.known_hosts", Here},
		{"backend.env.*", Server},
		{"backend.deploy.env.*", Server},
		{"backend.deploy.cache.claim", Server},
		{"backend.deploy.cache.path", Server},
		{"backend.deploy.gpu_label", Server},
		{"backend.deploy.gpu_resource", Server},
		{"backend.deploy.memory", Server},
		{"backend.deploy.node_selector.*", Server},
		{"backend.deploy.priority_class", Server},
		{"backend.deploy.pull_secrets[]", Server},
		{"backend.deploy.runtime_class", Server},
		{"backend.deploy.secrets.*", Server},
		{"backend.deploy.shm_size", Server},
		{"backend.deploy.tolerations[].key", Server},
		{"backend.deploy.tolerations[].value", Server},
		{"backend.deploy.user", Server},
		{"backend.settings.*", Server},
		{"backend.setup", Server},
		{"backend.program", Here},
		{"backend.attach", Here},
		{"backend.context", Here},
		{"backend.kubeconfig", Here},
		{"backend.namespace", Here},
		{"backend.manifests[]", Here},
		{"backend.dir", Here},
		{"backend.faults[]", Here},
		{"backend.fitted", Here},
		{"backend.user", Server},
		{"backend.network", Server},
		{"backend.listen", Server},
		{"backend.workdir", Server},
		{"backend.shared_disk", Server},
		{"backend.mounts[]", Server},
		{"backend.memory", Server},
		{"backend.shm_size", Server},
		{"backend.gpus[]", Server},
		{"backend.inside.image", Here},
		{"backend.inside.label", Here},
		{"backend.inside.name", Here},
		{"backend.inside.ready_line", Here},
		{"backend.candidates[].data_centers[]", Server},
		{"backend.candidates[].gpu", Server},
		{"backend.allowed_cuda[]", Server},
		{"backend.min_cuda", Server},
		{"backend.volume.path", Server},
		{"backend.network_volume.id", Server},
		{"backend.network_volume.path", Server},

		{"collect[]", Here},
		{"collect.prom.path", Request},
		{"collect.gpu.url", Address},
		{"sinks[]", Here},
		{"sinks.csv.columns[]", Here},
	}
}

var index = regexp.MustCompile(`\[[0-9]+\]`)

// compiled has the table with its paths as expressions.
var compiled = sync.OnceValue(func() (list []struct {
	Place
	path *regexp.Regexp
},
) {
	for _, p := range Places() {
		expr := strings.ReplaceAll(regexp.QuoteMeta(p.Path), `\*`, ".+")
		list = append(list, struct {
			Place
			path *regexp.Regexp
		}{p, regexp.MustCompile("^(?s:" + expr + ")$")})
	}
	return list
})

// PlaceOf returns the place of a key, as its words name it: backend.headers.X-Tenant. If
// several fit, as a key of a mapping may hold dots, it is the one with the strictest rule.
func PlaceOf(where string) (place Place, ok bool) {
	where = index.ReplaceAllString(where, "[]")
	for _, p := range compiled() {
		stricter := p.Goes > place.Goes || p.Goes == place.Goes && len(p.Path) > len(place.Path)
		if p.path.MatchString(where) && (!ok || stricter) {
			place, ok = p.Place, true
		}
	}
	return place, ok
}
