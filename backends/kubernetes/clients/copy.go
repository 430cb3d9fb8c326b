package clients

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/kubeapi"
)

// A program is this program as it is copied into pods.
type program struct {
	packed []byte // by gzip
	sum    string // SHA-256 of the program itself, in hex
	size   int64
}

// load reads a program that runs in any pod of its architecture.
func load(path string) (*program, error) {
	if path == "" {
		var err error
		if path, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	if err := copyable(path); err != nil {
		return nil, err
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var packed bytes.Buffer
	zip, err := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(zip, h), file)
	if err == nil {
		err = zip.Close()
	}
	if err != nil {
		return nil, err
	}
	return &program{packed.Bytes(), hex.EncodeToString(h.Sum(nil)), n}, nil
}

// Copyable fails if load pods of no image of sweep cannot get this program: known before
// anything is made.
func Copyable(want backends.ClientsWant) error {
	if want.Image != "" {
		return nil
	}
	path, err := os.Executable()
	if err != nil {
		return err
	}
	return copyable(path)
}

// copyable fails if a program does not run in any pod of its architecture.
func copyable(path string) error {
	if err := static(path); err != nil {
		return fmt.Errorf("%s cannot be copied into pods: %w; or name an image of sweep in load.clients.image", path, err)
	}
	return nil
}

// static says why a file is no program of Linux that needs no library.
func static(path string) error {
	f, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("it is no program of Linux: %w", err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return fmt.Errorf("it needs libraries: build it with CGO_ENABLED=0")
		}
	}
	return nil
}

// copyAll copies this program into all pods, and says how long that took.
func (f *Fleet) copyAll(ctx context.Context, pods []string) error {
	begun := time.Now()
	p, err := load(f.Program)
	if err != nil {
		return fmt.Errorf("%w: %w", backends.ErrSpec, err)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(copiesAtOnce)
	for _, name := range pods {
		g.Go(func() error { return f.copy(ctx, name, p) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	f.Note(fmt.Sprintf("copied sweep (%d MiB, %d MiB packed) into %d load pods in %.1f s", p.size>>20, len(p.packed)>>20, len(pods), time.Since(begun).Seconds()))
	return nil
}

// copy copies the program into one pod. It is there, under the name that the pod waits
// for, only after its digest was compared.
func (f *Fleet) copy(ctx context.Context, pod string, p *program) error {
	run := func(script string, in io.Reader) (string, error) {
		var out bytes.Buffer
		err := f.API.Exec(ctx, kubeapi.Command{
			Namespace: f.space.Name, Pod: pod, Container: container, Argv: []string{"sh", "-c", script}, In: in, Out: &out,
		})
		return out.String(), err
	}
	said, err := run("gzip -dc > "+folder+"/part && chmod 0755 "+folder+"/part && sha256sum "+folder+"/part", bytes.NewReader(p.packed))
	if err != nil {
		return uncopied(ctx, pod, err)
	}
	if got, _, _ := strings.Cut(said, " "); got != p.sum {
		return uncopied(ctx, pod, fmt.Errorf("it has the digest %.80q there and %s here", got, p.sum))
	}
	if _, err = run("mv "+folder+"/part "+folder+"/sweep", nil); err != nil {
		return uncopied(ctx, pod, err)
	}
	return nil
}

// uncopied returns the error of a copy that failed, with its class: that of the image if a command of
// it did, else that of the node. A missing right, and the end of ctx, have none here.
func uncopied(ctx context.Context, pod string, err error) error {
	f := &backends.Failure{Class: "host", Err: fmt.Errorf("copy sweep into pod %s: %w", pod, err)}
	exit, ran := errors.AsType[*kubeapi.ExitError](err)
	_, denied := errors.AsType[*kubeapi.Denied](err)
	switch {
	case denied || ctx.Err() != nil:
		return f.Err
	case ran && strings.Contains(exit.Said, "No space left on device"):
		f.Class, f.Hint = "disk", "the node's disk is full: use another node"
	case ran:
		f.Class, f.Hint = "image", "its image needs sh, gzip and sha256sum: use another one in load.clients.base, or name an image of sweep in load.clients.image"
	}
	return f
}
