package backends

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// A Name is what a pod is called at its provider. Everything that a clean-up
// from another machine needs is in it, because a provider may have no labels,
// and because a name is written before anything else can be lost:
//
//	sw-<owner>-<run>-<serial>-x<expiry>
//
// It is at most 60 characters of [a-z0-9-] and begins with a letter.
type Name struct {
	Owner   string    // OwnerTag of the owner
	Run     string    // RunTag of the run
	Serial  string    // random: two creates never have the same name
	Expires time.Time // in whole seconds
}

// NewName makes the name of a pod that is about to be made.
func NewName(owner, run string, expires time.Time) Name {
	return Name{OwnerTag(owner), RunTag(run), strings.ToLower(rand.Text()[:8]), expires.Truncate(time.Second).UTC()}
}

func (n Name) String() string {
	return "sw-" + n.Owner + "-" + n.Run + "-" + n.Serial + "-x" + strconv.FormatInt(n.Expires.Unix(), 36)
}

var namePattern = regexp.MustCompile(`^sw-([0-9a-f]{8})-([0-9a-z]{4,16})-([0-9a-z]{8})-x([0-9a-z]{1,8})$`)

// ParseName reads a Name. It is false for everything that String does not make.
func ParseName(s string) (Name, bool) {
	m := namePattern.FindStringSubmatch(s)
	if m == nil {
		return Name{}, false
	}
	seconds, err := strconv.ParseInt(m[4], 36, 64)
	if err != nil {
		return Name{}, false
	}
	n := Name{m[1], m[2], m[3], time.Unix(seconds, 0).UTC()}
	return n, n.String() == s
}

// OwnerTag returns an owner in a [Name]: the first 32 bits of its SHA-256.
func OwnerTag(owner string) string { return tag(owner)[:8] }

var plainRun = regexp.MustCompile(`^[0-9a-z]{4,16}$`)

// RunTag returns a run's id in a [Name]: the id itself where a name can hold it.
func RunTag(run string) string {
	if plainRun.MatchString(run) {
		return run
	}
	return tag(run)[:10]
}

func tag(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// The marks that a provider stores with a pod, as environment variables or
// labels: what says whose a pod is when its name alone is no proof.
const (
	MarkOwner   = "SWEEP_OWNER"
	MarkRun     = "SWEEP_RUN_ID"
	MarkPod     = "SWEEP_POD"
	MarkExpires = "SWEEP_EXPIRES" // seconds since the epoch
	MarkDigest  = "SWEEP_DIGEST"  // Spec.Digest
)

// Marks returns the marks of a spec's pod.
func Marks(spec Spec) map[string]string {
	m := map[string]string{MarkOwner: spec.Owner, MarkRun: spec.RunID, MarkPod: spec.Pod, MarkDigest: spec.Digest}
	if !spec.Expires.IsZero() {
		m[MarkExpires] = strconv.FormatInt(spec.Expires.Unix(), 10)
	}
	return m
}
