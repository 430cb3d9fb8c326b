package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/moby/moby/api/pkg/authconfig"
	"github.com/moby/moby/api/types/jsonstream"
	"github.com/moby/moby/api/types/registry"
	"github.com/moby/moby/client"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/layout"
)

// An image is what a container will be made of.
type image struct {
	id         string // sha256:... of its configuration: names these bytes for good
	digest     string // sha256:... of its manifest where a registry has given it, else id
	entrypoint []string
}

// image returns the image that a reference names, fetched as the configuration
// says. An image that cannot be had is a [backends.ErrSpec].
func (b *Backend) image(ctx context.Context, ref string, progress io.Writer) (image, error) {
	if ref == "" {
		return image{}, fmt.Errorf("%w: no image: the engine's profile has none, so set engines.<name>.image", backends.ErrSpec)
	}
	if b.config.Pull == "always" {
		if err := b.pull(ctx, ref, progress); err != nil {
			return image{}, err
		}
		return b.inspectImage(ctx, ref)
	}
	img, err := b.inspectImage(ctx, ref)
	switch {
	case !cerrdefs.IsNotFound(err):
		return img, err
	case b.config.Pull == "never":
		return image{}, fmt.Errorf("%w: there is no image %s here, and pull is never", backends.ErrSpec, ref)
	}
	if err := b.pull(ctx, ref, progress); err != nil {
		return image{}, err
	}
	return b.inspectImage(ctx, ref)
}

func (b *Backend) inspectImage(ctx context.Context, ref string) (image, error) {
	var img image
	err := b.call(ctx, effect.DockerRead, func(ctx context.Context) error {
		res, err := b.api.ImageInspect(ctx, ref)
		if err != nil {
			return fmt.Errorf("image %s: %w", ref, err)
		}
		img = image{id: res.ID, digest: digest(ref, res.ID, res.RepoDigests)}
		if res.Config != nil {
			img.entrypoint = res.Config.Entrypoint
		}
		return nil
	})
	return img, err
}

// digest returns what names the image in a row: the digest of the reference itself,
// that under which its own repository has it, or, for one that never was in a
// registry, its id.
func digest(ref, id string, known []string) string {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return id
	}
	if d, ok := named.(reference.Digested); ok {
		return d.Digest().String()
	}
	for _, text := range known {
		k, err := reference.ParseNormalizedNamed(text)
		if err != nil || k.Name() != named.Name() {
			continue
		}
		if d, ok := k.(reference.Digested); ok {
			return d.Digest().String()
		}
	}
	return id
}

// pull fetches an image and writes how far it has come to progress.
func (b *Backend) pull(ctx context.Context, ref string, progress io.Writer) error {
	auth, err := b.config.Registry.header(ref)
	if err != nil {
		return fmt.Errorf("%w: image %s: %w", backends.ErrSpec, ref, err)
	}
	err = b.call(ctx, effect.DockerPull, func(ctx context.Context) error {
		stream, err := b.api.ImagePull(ctx, ref, client.ImagePullOptions{RegistryAuth: auth})
		if err != nil {
			return err
		}
		defer stream.Close()
		return follow(stream.JSONMessages(ctx), ref, progress)
	})
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: pull of %s: %w", pullClass(err), ref, err)
}

// header returns what Docker's API calls X-Registry-Auth.
func (r *Registry) header(ref string) (string, error) {
	if r == nil {
		return "", nil
	}
	host, err := registryOf(ref)
	if err != nil {
		return "", err
	}
	return authconfig.Encode(registry.AuthConfig{Username: r.Username, Password: r.Password.Reveal(), ServerAddress: host})
}

// Destinations implements [backends.Outbound].
func (b *Backend) Destinations() (to backends.Destinations, err error) {
	if b.config.Registry != nil {
		to.Registry = registryOf
	}
	return to, nil
}

// registryOf returns the host of an image's registry.
func registryOf(image string) (string, error) {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return "", err
	}
	return reference.Domain(named), nil
}

// errPull is a pull that may work the next time.
var errPull = errors.New("the image did not arrive")

// pullClass tells what will fail in the same way again from what may not. A
// registry's answer reaches us as a text, whatever its status was.
func pullClass(err error) error {
	if cerrdefs.IsUnauthorized(err) || cerrdefs.IsPermissionDenied(err) {
		return backends.ErrRefused
	}
	if cerrdefs.IsNotFound(err) || cerrdefs.IsInvalidArgument(err) {
		return backends.ErrSpec
	}
	text := strings.ToLower(err.Error())
	for _, sign := range []string{"manifest unknown", "not found", "repository does not exist", "invalid reference", "no matching manifest"} {
		if strings.Contains(text, sign) {
			return backends.ErrSpec
		}
	}
	for _, sign := range []string{"unauthorized", "denied", "authentication required", "no basic auth credentials"} {
		if strings.Contains(text, sign) {
			return backends.ErrRefused
		}
	}
	return errPull
}

// progressEvery is how often a pull says how far it is.
const progressEvery = 5 * time.Second

// follow reads the messages of a pull to their end. The daemon has answered 200
// before it knows whether the pull will work: an error is one of the messages,
// and a stream that ends in mid-message is one too.
func follow(messages iter.Seq2[jsonstream.Message, error], ref string, progress io.Writer) error {
	layers := map[string][2]int64{}
	last := time.Now()
	fmt.Fprintf(progress, "pulling %s\n", ref)
	for m, err := range messages {
		switch {
		case err != nil:
			return err
		case m.Error != nil:
			return m.Error
		case m.Progress != nil && m.Progress.Total > 0 && m.Status == "Downloading":
			layers[m.ID] = [2]int64{m.Progress.Current, m.Progress.Total}
		case m.Status == "Download complete" || m.Status == "Pull complete":
			if l, ok := layers[m.ID]; ok {
				layers[m.ID] = [2]int64{l[1], l[1]}
			}
		case m.ID == "" && m.Status != "":
			fmt.Fprintln(progress, m.Status) // Digest: ..., Status: ...
		}
		if time.Since(last) >= progressEvery {
			last = time.Now()
			var have, want int64
			for _, l := range layers {
				have, want = have+l[0], want+l[1]
			}
			fmt.Fprintf(progress, "%d of %d MB in %d layers\n", have/1e6, want/1e6, len(layers))
		}
	}
	return nil
}

// images gets every image of a spec, each once.
func (b *Backend) images(ctx context.Context, spec backends.Spec) (_ map[string]image, err error) {
	out := map[string]image{}
	progress := &lazyFile{fx: b.fx}
	if role := spec.Roles[0]; role.LogPath != nil {
		progress.path = filepath.Join(filepath.Dir(role.LogPath(0)), layout.PullLog)
	}
	defer func() { err = errors.Join(err, progress.Close()) }()
	for _, role := range spec.Roles {
		ref := role.Image
		if _, ok := out[ref]; ok {
			continue
		}
		if out[ref], err = b.image(ctx, ref, progress); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// A lazyFile is made when the first byte is written to it: a launch that pulls
// nothing leaves no empty file. Without a path it drops what it gets.
type lazyFile struct {
	fx   *effect.Effects
	path string
	file *effect.File
}

func (l *lazyFile) Write(p []byte) (int, error) {
	if l.path == "" {
		return len(p), nil
	}
	if l.file == nil {
		f, err := l.fx.Create(effect.LogCreate, l.path)
		if err != nil {
			return 0, err
		}
		l.file = f
	}
	return l.file.Write(p)
}

func (l *lazyFile) Close() error {
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}
