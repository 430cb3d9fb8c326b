package manifest

import (
	"strings"

	"sweep.dev/sweep/internal/syntax"
)

// templates says where a kind has the metadata of the pods that it makes: the paths of
// mappings with labels in them. A * is each entry of a list. A path that an object does
// not have is left out, but for its last key.
func (o *Object) templates() []string {
	switch o.Kind {
	case "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController", "Job":
		return []string{"spec.template.metadata"}
	case "CronJob":
		return []string{"spec.jobTemplate.metadata", "spec.jobTemplate.spec.template.metadata"}
	case "JobSet":
		return []string{"spec.replicatedJobs.*.template.spec.template.metadata"}
	case "LeaderWorkerSet":
		return []string{"spec.leaderWorkerTemplate.leaderTemplate.metadata", "spec.leaderWorkerTemplate.workerTemplate.metadata"}
	case "DisaggregatedSet":
		return []string{
			"spec.roles.*.spec.leaderWorkerTemplate.leaderTemplate.metadata",
			"spec.roles.*.spec.leaderWorkerTemplate.workerTemplate.metadata",
		}
	case "DynamoGraphDeployment": // its operator copies these to all that it makes
		if strings.HasSuffix(o.APIVersion, "/v1beta1") {
			return []string{"spec"}
		}
	}
	return nil
}

// metadata returns that of the object and of its pods' templates, as far as they are there.
func (o *Object) metadata() []*syntax.Node {
	all := []*syntax.Node{o.root.Get("metadata")}
	for _, path := range o.templates() {
		at := []*syntax.Node{o.root}
		for key := range strings.SplitSeq(path, ".") {
			var next []*syntax.Node
			for _, n := range at {
				if key == "*" {
					next = append(next, n.Items...)
				} else if c := n.Get(key); c != nil {
					next = append(next, c)
				}
			}
			at = next
		}
		all = append(all, at...)
	}
	return all
}

// places returns the mappings of a document that get labels.
func (o *Object) places(doc map[string]any) []map[string]any {
	all := []map[string]any{child(doc, "metadata")}
	for _, path := range o.templates() {
		all = append(all, follow(doc, strings.Split(path, "."))...)
	}
	return all
}

// follow returns the mappings at the end of keys below v; the last of them is made if its
// parent is there.
func follow(v any, keys []string) (all []map[string]any) {
	switch v := v.(type) {
	case map[string]any:
		switch {
		case len(keys) == 0:
			return []map[string]any{v}
		case len(keys) == 1:
			return []map[string]any{child(v, keys[0])}
		}
		return follow(v[keys[0]], keys[1:])
	case []any:
		for _, item := range v {
			if keys[0] == "*" {
				all = append(all, follow(item, keys[1:])...)
			}
		}
	}
	return all
}
