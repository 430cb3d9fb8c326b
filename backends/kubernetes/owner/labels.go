package owner

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"regexp"
	"strconv"
	"strings"
	"time"

	"sweep.dev/sweep/backends"
)

// The labels of everything that sweep makes in a cluster. What somebody else made has
// none of them.
// https://kubernetes.io/docs/concepts/overview/working-with-objects/common-labels/
const (
	LabelManagedBy = "app.kubernetes.io/managed-by" // ManagedBy
	LabelName      = "app.kubernetes.io/name"       // the engine
	LabelComponent = "app.kubernetes.io/component"  // a Component
	LabelInstance  = "app.kubernetes.io/instance"   // the deployment's backends.Name

	LabelOwner      = "sweep.dev/owner" // its tag: user@host cannot be a label's value
	LabelRun        = "sweep.dev/run"
	LabelDeployment = "sweep.dev/deployment" // Spec.Pod
	LabelRole       = "sweep.dev/role"
	LabelReplica    = "sweep.dev/replica"
)

// The annotations hold the same in full.
const (
	AnnotationOwner   = "sweep.dev/owner"
	AnnotationRun     = "sweep.dev/run"
	AnnotationPod     = "sweep.dev/deployment"
	AnnotationExpires = "sweep.dev/expires" // RFC 3339
	AnnotationDigest  = "sweep.dev/digest"
)

// ManagedBy is the value of LabelManagedBy.
const ManagedBy = "sweep"

// A Component is what an object is for.
type Component string

// Components.
const (
	DeadMan Component = "deadman" // the owner itself
	Engine  Component = "engine"
	Load    Component = "load"
)

// Labels returns those of an object of a launch. The role is "" where it is of none.
func (o *Owner) Labels(c Component, role string, replica int) map[string]string {
	labels := map[string]string{
		LabelManagedBy: ManagedBy, LabelInstance: o.Name.String(), LabelComponent: string(c),
		LabelOwner: o.Name.Owner, LabelRun: Value(o.Name.Run), LabelDeployment: Value(o.marks[backends.MarkPod]),
	}
	if o.engine != "" {
		labels[LabelName] = Value(o.engine)
	}
	if role != "" {
		labels[LabelRole], labels[LabelReplica] = Value(role), strconv.Itoa(replica)
	}
	return labels
}

// Annotations returns those of an object of a launch.
func (o *Owner) Annotations() map[string]string {
	return map[string]string{
		AnnotationOwner: o.marks[backends.MarkOwner], AnnotationRun: o.marks[backends.MarkRun], AnnotationPod: o.marks[backends.MarkPod],
		AnnotationDigest: o.marks[backends.MarkDigest], AnnotationExpires: o.Name.Expires.Format(time.RFC3339),
	}
}

// Selector selects everything of a deployment by its name, "" everything of sweep's.
func Selector(name string) string {
	selector := LabelManagedBy + "=" + ManagedBy
	if name != "" {
		selector += "," + LabelInstance + "=" + name
	}
	return selector
}

// Marks returns those that an object has, by the names of package backends.
func Marks(annotations map[string]string) map[string]string {
	marks := map[string]string{}
	for mark, key := range map[string]string{
		backends.MarkOwner: AnnotationOwner, backends.MarkRun: AnnotationRun, backends.MarkPod: AnnotationPod, backends.MarkDigest: AnnotationDigest,
	} {
		if v, ok := annotations[key]; ok {
			marks[mark] = v
		}
	}
	if at, err := time.Parse(time.RFC3339, annotations[AnnotationExpires]); err == nil {
		marks[backends.MarkExpires] = strconv.FormatInt(at.Unix(), 10)
	}
	return marks
}

// maxValue is how long a label's value may be.
const maxValue = 63

var unlabelled = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)

// Value returns a text as a label can hold it: what a label cannot hold is a dash, and a text
// that is too long ends with a part of its hash.
func Value(text string) string {
	value := unlabelled.ReplaceAllString(text, "-")
	if len(value) > maxValue {
		sum := sha256.Sum256([]byte(text))
		value = value[:maxValue-9] + "-" + hex.EncodeToString(sum[:4])
	}
	return strings.Trim(value, "-_.")
}

// merged has the entries of both, those of over where both have one.
func merged(below, over map[string]string) map[string]string {
	all := maps.Clone(below)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, over)
	return all
}
