package engine

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// At returns the profile for one release of the engine, with the roles as they were
// then; "", and what is no version, is the newest. Roles is not shared with p,
// all else is.
func (p *Profile) At(version string) *Profile {
	release, ok := parseVersion(version)
	if !ok {
		return p
	}
	at := *p
	at.Roles = slices.Clone(p.Roles)
	for i := range at.Roles {
		r := &at.Roles[i]
		for _, old := range r.Versions { // oldest first
			below, _ := parseVersion(old.Below)
			if slices.Compare(release, below) >= 0 {
				continue
			}
			r.Image = cmp.Or(old.Image, r.Image)
			if old.Command != nil {
				r.Command = old.Command
			}
			if old.Entrypoint != nil {
				r.Entrypoint = old.Entrypoint
			}
			break
		}
	}
	return &at
}

var tagVersion = regexp.MustCompile(`^v?(\d+(?:\.\d+)+)`)

// ImageVersion returns the version that the tag of an image names: 0.10.2 of
// vllm/vllm-openai:v0.10.2-cu128, and "" of a tag that begins with none.
func ImageVersion(image string) string {
	image, _, _ = strings.Cut(image, "@")
	_, tag, ok := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	m := tagVersion.FindStringSubmatch(tag)
	if !ok || m == nil {
		return ""
	}
	return m[1]
}

// parseVersion reads the leading numbers of a version.
func parseVersion(version string) ([]int, bool) {
	m := tagVersion.FindStringSubmatch(version)
	if m == nil {
		return nil, false
	}
	var out []int
	for digits := range strings.SplitSeq(m[1], ".") {
		n, err := strconv.Atoi(digits)
		if err != nil {
			return nil, false
		}
		out = append(out, n)
	}
	return out, true
}
