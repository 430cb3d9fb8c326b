package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/input"
	"sweep.dev/sweep/load/calibrate"
)

// calibrationAge is how long a calibration is good for: nothing that it is
// filed under has changed since, but what else runs on a machine may.
const calibrationAge = 7 * 24 * time.Hour

// disturbedAge is how long one is good for that was made while the machine had
// other things to do.
const disturbedAge = time.Hour

// A calibrationCache is a folder with one file for each machine and shape.
type calibrationCache struct {
	fx  *effect.Effects
	dir string
	err error // there is no such folder, and why
}

func (a *app) calibrations() *calibrationCache {
	dir, err := os.UserCacheDir()
	if err != nil {
		return &calibrationCache{err: err}
	}
	fx, err := a.effects()
	return &calibrationCache{fx: fx, dir: filepath.Join(dir, "sweep", "calibration"), err: err}
}

// path returns the file of a calibration, by everything that it depends on.
func (s *calibrationCache) path(m calibrate.Machine, shape calibrate.Shape) string {
	key, err := json.Marshal(struct {
		calibrate.Machine
		calibrate.Shape
	}{m, shape})
	if err != nil {
		panic(err) // texts and numbers always encode
	}
	sum := sha256.Sum256(key)
	return filepath.Join(s.dir, hex.EncodeToString(sum[:8])+".json")
}

// find returns a calibration that is young enough, or nil. A file that cannot be
// used is as good as none: it is measured again and written over.
func (s *calibrationCache) find(m calibrate.Machine, shape calibrate.Shape) *calibrate.Result {
	if s.err != nil {
		return nil
	}
	found, err := readCalibration(s.path(m, shape))
	if err != nil || found.Machine != m || found.Shape != shape {
		return nil
	}
	most := calibrationAge
	if found.Disturbance() != "" {
		most = disturbedAge
	}
	if age := time.Since(found.At); age < 0 || age > most {
		return nil
	}
	return found
}

func (s *calibrationCache) keep(found *calibrate.Result) error {
	if s.err != nil {
		return s.err
	}
	if err := s.fx.MkdirAll(calibrationMkdir, s.dir); err != nil {
		return err
	}
	return s.fx.WriteFileAtomic(calibrationCreate, s.path(found.Machine, found.Shape), func(w io.Writer) error {
		return json.NewEncoder(w).Encode(found)
	})
}

// The cache is no part of a run, so its points are in no list: a crash there
// leaves nothing that has to be found again.
const (
	calibrationMkdir  effect.Point = "calibration.mkdir"
	calibrationCreate effect.Point = "calibration.create"
)

// readCalibration reads one file; fs.ErrNotExist if there is none.
func readCalibration(path string) (*calibrate.Result, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return parseCalibration(b)
}

// parseCalibration reads the content of one file.
func parseCalibration(b []byte) (*calibrate.Result, error) {
	var r calibrate.Result
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, input.JSON(err)
	}
	if r.At.IsZero() {
		return nil, errors.New("it is no calibration")
	}
	return &r, nil
}
