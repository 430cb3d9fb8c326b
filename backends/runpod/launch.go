package runpod

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/provision"
	"sweep.dev/sweep/backends/runpodapi"
)

// maxCreates bounds the creates of one launch: what is turned away by a limit
// of calls, or lost without a trace, is tried again under another name.
const maxCreates = 6

// Check finds in a spec what could never be launched, or would start something
// else than what is meant.
func (b *Backend) Check(spec backends.Spec) error {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("%w: runpod: "+format, append([]any{backends.ErrSpec}, args...)...)
	}
	image := imageOf(spec)
	switch {
	case image == "":
		return wrong("no image: name one in engines.%s.image", spec.Engine)
	case strings.ContainsAny(image, " \t\r\n\"'"):
		return wrong("%q is not an image", image)
	}
	servers := 0
	for _, role := range spec.Roles {
		servers += role.Replicas
		if role.Image != "" && role.Image != image {
			return wrong("all roles of %s run in one pod, of one image: %s has %s, not %s", spec.Engine, role.Name, role.Image, image)
		}
	}
	if servers > 1 && !b.Bootstrap {
		return wrong("only sweep's script can start %d servers in one pod: bootstrap has to be on", servers)
	}
	for _, c := range b.Candidates {
		if _, err := runpodID(cmp.Or(c.GPU, spec.GPU)); err != nil {
			return err
		}
	}
	return b.Layer.Check(spec)
}

// imageOf returns the image of a deployment's pod; "" if the plan has none.
func imageOf(spec backends.Spec) string {
	for _, role := range spec.Roles {
		if role.Image != "" {
			return role.Image
		}
	}
	return ""
}

// Launch rents a pod of the first candidate that can be had and returns once its
// container runs and its port is known.
func (b *Backend) Launch(ctx context.Context, spec backends.Spec, l backends.Ledger) (backends.Deployment, error) {
	if err := b.Check(spec); err != nil {
		return nil, err
	}
	offers, err := b.offers(ctx, spec)
	if err != nil {
		return nil, err
	}
	network := b.Network
	if network == networkAuto {
		network = networkTCP
	}
	var last error
	creates := 0
	for i := 0; i < len(offers); {
		if !offers[i].reach {
			i++
			continue
		}
		if creates++; creates > maxCreates {
			return nil, fmt.Errorf("no pod after %d creates: %w", maxCreates, last)
		}
		d, err := provision.New(b.Settings, pods{b: b, rent: &rent{offers[i], network}}).Launch(ctx, spec, l)
		switch {
		case err == nil:
			return d, nil
		case ctx.Err() != nil, errors.Is(err, provision.ErrOwed):
			return nil, err
		case errors.Is(err, errNoPort) && b.Network == networkAuto && network == networkTCP:
			network = networkProxy
		case errors.Is(err, backends.ErrCapacity):
			i++
		case !runpodapi.Limited(err) && !errors.Is(err, provision.ErrLost):
			return nil, err
		}
		last = err
	}
	return nil, none(spec, offers, last)
}

// diskUSD is what a GB of disk costs for a month of 730 hours while its pod runs,
// beside the price that the API tells: https://docs.runpod.io/pods/pricing
const diskUSD = 0.10

// diskPrice returns what the pod's disks cost in an hour.
func (b *Backend) diskPrice() float64 {
	gb := b.Disk
	if b.Volume != nil {
		gb += b.Volume.Size
	}
	return float64(gb) * diskUSD / 730
}
