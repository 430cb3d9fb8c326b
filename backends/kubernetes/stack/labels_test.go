package stack

import (
	"testing"

	"sweep.dev/sweep/internal/kubeapi"
)

// Each spelling of a role that is known is read as the same role.
func TestRoleOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		labels     map[string]string
		role, kind string
	}{
		{map[string]string{"llm-d.ai/role": "decode"}, "decode", "llm-d"},
		{map[string]string{"llm-d.io/role": "both"}, "prefill-decode", "llm-d"},
		{map[string]string{"llm-d.ai/inferenceServing": "true"}, "server", "llm-d"},
		{map[string]string{"llm-d.ai/inference-serving": "false"}, "other", "llm-d"},
		{map[string]string{"inferencepool": "a-epp"}, "router", ""},
		{map[string]string{"llm-d-router-proxy": "a-proxy"}, "proxy", "llm-d"},
		{map[string]string{dynamoType: "worker", dynamoSubType: "prefill"}, "prefill", "dynamo"},
		{map[string]string{dynamoType: "worker"}, "worker", "dynamo"},
		{map[string]string{dynamoType: "epp"}, "router", "dynamo"},
		{map[string]string{componentKey: "llminferenceservice-workload-prefill", "llm-d.ai/model": "m"}, "prefill", "kserve"},
		{map[string]string{componentKey: "llminferenceservice-workload"}, "decode", "kserve"},
		{map[string]string{componentKey: "llminferenceservice-router-scheduler"}, "router", "kserve"},
		{map[string]string{gatewayKey: "edge"}, "gateway", ""},
		{map[string]string{"app": "db"}, "other", ""},
	} {
		p := &pod{Meta: kubeapi.Meta{Labels: c.labels}}
		if role, kind := roleOf(p), kindOf(p); role != c.role || kind != c.kind {
			t.Errorf("%v: %s of %q, want %s of %q", c.labels, role, kind, c.role, c.kind)
		}
	}
}
