package rundir

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
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

// WriteQuality keeps what a launch answered to the plan's quality prompts, in its folder,
// and journals the digest of it.
func (d *Dir) WriteQuality(deployment string, n int, write func(io.Writer) error) error {
	name, err := launchName(deployment, n)
	if err != nil {
		return err
	}
	sum := sha256.New()
	err = d.files.WriteFileAtomic(effect.LaunchCreate, path.Join(name, layout.Quality), func(w io.Writer) error {
		sum.Reset()
		return write(io.MultiWriter(sum, w))
	})
	if err != nil {
		return fmt.Errorf("%s: %w", layout.Quality, err)
	}
	return d.journal.append(effect.EventJournal, typeAnswered, answered{launch{deployment, n}, hex.EncodeToString(sum.Sum(nil))})
}

// Quality calls read for what each launch of a deployment answered to quality prompts, in
// no order. A file that was changed since is left out.
func (d *Dir) Quality(deployment string, read func(io.Reader) error) error {
	if err := checkSlug("deployment", deployment); err != nil {
		return err
	}
	st, err := Read(d.path)
	if err != nil {
		return err
	}
	names, err := fs.Glob(d.root.FS(), path.Join(layout.Deployments, deployment, "l*", layout.Quality))
	if err != nil {
		return err
	}
	for _, name := range names {
		text, err := d.root.ReadFile(name)
		if err == nil && st.Untouched(name, text) == nil {
			err = read(bytes.NewReader(text))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// An answered is the data of a quality_answered event.
type answered struct {
	launch
	SHA256 string `json:"sha256"` // of the launch's quality.jsonl
}

// Untouched fails if a launch's file of answers is not what the launch wrote. name is its
// path in the run directory. Of a deployment of which the journal names no answers nothing
// is known: earlier versions did not name them, and a process may die before it does.
func (s *State) Untouched(name string, text []byte) error {
	folder := path.Dir(name)
	n, ok := layout.ParseLaunch(path.Base(folder))
	of := s.answers[path.Base(path.Dir(folder))]
	if !ok || of == nil {
		return nil
	}
	switch got, want := hexSum(text), of[n]; {
	case want == "":
		return errors.New("the journal does not name it")
	case got != want:
		return fmt.Errorf("it has the digest %.12s, the journal says %.12s: it was changed after the run", got, want)
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
