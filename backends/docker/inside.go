package docker

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/effect"
)

// detailInside is the key of a ref's details that says in which container a pod
// inside somebody else's is: its id.
const detailInside = "inside"

// glob makes a regular expression of a pattern in which * is anything.
func glob(pattern string) *regexp.Regexp {
	return regexp.MustCompile(`^` + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, `.*`) + `$`)
}

// matches reports whether a running container is the one that is meant.
func (i Inside) matches(c container.Summary) bool {
	if i.Image != "" && !glob(i.Image).MatchString(c.Image) {
		return false
	}
	if i.Name != "" && !slices.ContainsFunc(c.Names, func(n string) bool { return glob(i.Name).MatchString(strings.TrimPrefix(n, "/")) }) {
		return false
	}
	if i.Label != "" {
		key, want, valued := strings.Cut(i.Label, "=")
		value, ok := c.Labels[key]
		if !ok || valued && value != want {
			return false
		}
	}
	return true
}

func (i Inside) String() string {
	var parts []string
	for _, p := range [][2]string{{"image", i.Image}, {"label", i.Label}, {"name", i.Name}} {
		if p[1] != "" {
			parts = append(parts, p[0]+" "+p[1])
		}
	}
	return strings.Join(parts, " and ")
}

// choose finds the one container that is meant.
func (i Inside) choose(running []container.Summary) (container.Summary, error) {
	var found []container.Summary
	var names []string
	for _, c := range running {
		if i.matches(c) {
			found = append(found, c)
			names = append(names, strings.TrimPrefix(firstName(c), "/"))
		}
	}
	switch len(found) {
	case 0:
		return container.Summary{}, fmt.Errorf("no running container has %s: %w", i, backends.ErrNotFound)
	case 1:
		return found[0], nil
	}
	slices.Sort(names)
	return container.Summary{}, fmt.Errorf("%w: %d running containers have %s (%s): name one of them more exactly",
		backends.ErrSpec, len(found), i, strings.Join(names, ", "))
}

func (b *Backend) chooseInside(ctx context.Context) (container.Summary, error) {
	var running []container.Summary
	err := b.call(ctx, effect.DockerRead, func(ctx context.Context) error {
		res, err := b.api.ContainerList(ctx, client.ContainerListOptions{})
		running = res.Items
		return err
	})
	if err != nil {
		return container.Summary{}, fmt.Errorf("list containers: %w", err)
	}
	return b.config.Inside.choose(running)
}
