package rundir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/internal/secret"
)

// WriteLaunch keeps what a launch was started with, as launch.json in its
// folder.
func (d *Dir) WriteLaunch(deployment string, n int, launch any) error {
	name, err := launchName(deployment, n)
	if err != nil {
		return err
	}
	err = d.files.WriteFileAtomic(effect.LaunchCreate, path.Join(name, layout.Launch), func(w io.Writer) error {
		enc := json.NewEncoder(w)
		enc.SetIndent("", " ")
		return enc.Encode(launch)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", layout.Launch, err)
	}
	return nil
}

// WriteQuality keeps what a launch answered to the plan's quality prompts, in its folder.
func (d *Dir) WriteQuality(deployment string, n int, write func(io.Writer) error) error {
	name, err := launchName(deployment, n)
	if err != nil {
		return err
	}
	if err := d.files.WriteFileAtomic(effect.LaunchCreate, path.Join(name, layout.Quality), write); err != nil {
		return fmt.Errorf("%s: %w", layout.Quality, err)
	}
	return nil
}

// Quality calls read for what each launch of a deployment answered to quality prompts,
// in no order.
func (d *Dir) Quality(deployment string, read func(io.Reader) error) error {
	if err := checkSlug("deployment", deployment); err != nil {
		return err
	}
	names, err := fs.Glob(d.root.FS(), path.Join(layout.Deployments, deployment, "l*", layout.Quality))
	if err != nil {
		return err
	}
	for _, name := range names {
		f, err := d.root.Open(name)
		if err == nil {
			err = read(f)
			f.Close() // read only
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// HideInLogs rewrites the logs of a launch that show a secret. It is for a
// launch that has ended: a server writes into its log by itself, so that what
// it says can only be hidden afterwards.
func (d *Dir) HideInLogs(deployment string, n int, mask secret.Mask) error {
	if mask.IsZero() {
		return nil
	}
	name, err := launchName(deployment, n)
	if err != nil {
		return err
	}
	logs, err := fs.Glob(d.root.FS(), path.Join(name, layout.ServerLogs))
	if err != nil {
		return err
	}
	var errs []error
	for _, log := range logs {
		if err := d.hideInLog(log, mask); err != nil {
			errs = append(errs, fmt.Errorf("hide secrets in %s: %w", log, err))
		}
	}
	return errors.Join(errs...)
}

func (d *Dir) hideInLog(name string, mask secret.Mask) error {
	f, err := d.root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close() // read only
	if found, err := mask.Copy(io.Discard, f); err != nil || !found {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return d.files.WriteFileAtomic(effect.LaunchCreate, name, func(w io.Writer) error {
		_, err := mask.Copy(w, f)
		return err
	})
}
