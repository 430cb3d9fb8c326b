// Release builds what a release of sweep consists of, into a folder:
//
//	sweep_VERSION_OS_ARCH.tar.gz   the program with its licence, for each system
//	sweep_VERSION_linux_ARCH.image.tar   a container image, for `docker load`
//	SHA256SUMS
//
// The same commit gives the same bytes on every machine: no time but the commit's, no
// path, no user is in them. VERSION is what the program says of itself: the tag of the
// commit, or a pseudo-version.
package main

import (
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A system is one that sweep is released for.
type system struct{ os, arch string }

func systems() []system {
	return []system{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	root := flag.String("C", ".", "the `FOLDER` of the checkout")
	out := flag.String("o", "dist", "the `FOLDER` that the files are written to")
	only := flag.String("only", "", "build for one `OS/ARCH` alone")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "release: unexpected argument %q\n", flag.Arg(0))
		os.Exit(2)
	}
	if err := build(ctx, *root, *out, *only); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// build writes the release of the checkout at root into out, which it makes. It prints
// the name of each file.
func build(ctx context.Context, root, out, only string) error {
	at, err := committed(ctx, root)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	var files []string
	for _, s := range systems() {
		if only != "" && only != s.os+"/"+s.arch {
			continue
		}
		made, err := one(ctx, root, out, s, at)
		if err != nil {
			return fmt.Errorf("%s/%s: %w", s.os, s.arch, err)
		}
		files = append(files, made...)
	}
	if len(files) == 0 {
		return fmt.Errorf("-only %s: want one of %v", only, systems())
	}
	return sums(out, files)
}

func (s system) String() string { return s.os + "/" + s.arch }

// one builds for one system and returns the names of the files in out.
func one(ctx context.Context, root, out string, s system, at time.Time) ([]string, error) {
	work, err := os.MkdirTemp("", "sweep-release-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	binary := filepath.Join(work, "sweep")
	c := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=true", "-ldflags=-s -w", "-o", binary, "./cmd/sweep")
	c.Dir, c.Stderr = root, os.Stderr
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOOS="+s.os, "GOARCH="+s.arch)
	if err := c.Run(); err != nil {
		return nil, fmt.Errorf("go build: %w", err)
	}
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	version := strings.TrimPrefix(info.Main.Version, "v")
	if version == "" || version == "(devel)" {
		version = "devel" // Go did not find the commit, as in a worktree of git
	}
	name := fmt.Sprintf("sweep_%s_%s_%s", version, s.os, s.arch)
	names := []string{name + ".tar.gz"}
	if err := archive(filepath.Join(out, names[0]), root, binary, name, at); err != nil {
		return nil, err
	}
	if s.os == "linux" {
		names = append(names, name+".image.tar")
		if err := image(filepath.Join(out, names[1]), root, binary, version, s.arch, at); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// committed returns the time of the checkout's commit. All files of a release carry it.
func committed(ctx context.Context, root string) (time.Time, error) {
	c := exec.CommandContext(ctx, "git", "log", "-1", "--format=%ct")
	c.Dir, c.Stderr = root, os.Stderr
	b, err := c.Output()
	if err != nil {
		return time.Time{}, fmt.Errorf("git log: %w", err)
	}
	s, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("git log: %w", err)
	}
	return time.Unix(s, 0).UTC(), nil
}

// sums writes SHA256SUMS, as `sha256sum -c` reads it.
func sums(out string, files []string) error {
	var b strings.Builder
	for _, name := range files {
		f, err := os.Open(filepath.Join(out, name))
		if err != nil {
			return err
		}
		h := sha256.New()
		_, err = io.Copy(h, f)
		f.Close()
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%x  %s\n", h.Sum(nil), name)
		fmt.Println(filepath.Join(out, name))
	}
	return os.WriteFile(filepath.Join(out, "SHA256SUMS"), []byte(b.String()), 0o644)
}
