package drill

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"sweep.dev/sweep/backends/runpod/runpodtest"
	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/rundir"
	"sweep.dev/sweep/rundir/rundirtest"
)

// grid returns what is wrong with the rows of a run that is complete.
func grid(dir string) error {
	f, err := os.Open(filepath.Join(dir, layout.CellsCSV))
	if err != nil {
		return err
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		return errors.New(layout.CellsCSV + " is empty")
	}
	var errs []error
	column := func(row []string, name string) string {
		i := slices.Index(rows[0], name)
		if i < 0 {
			return ""
		}
		return row[i]
	}
	seen := map[string]bool{}
	for _, row := range rows[1:] {
		key := column(row, "cell_id") + " " + column(row, "trial")
		if seen[key] {
			errs = append(errs, fmt.Errorf("trial %s has two rows", key))
		}
		seen[key] = true
		// Each worker's first request comes on top.
		workers, err := strconv.Atoi(column(row, "concurrency"))
		if err != nil {
			errs = append(errs, fmt.Errorf("trial %s has no concurrency: %w", key, err))
		}
		sent := strconv.Itoa(requests + workers)
		for name, want := range map[string]string{"status": "ok", "requests": sent, "completed": sent, "backend": "runpod"} {
			if got := column(row, name); got != want {
				errs = append(errs, fmt.Errorf("trial %s has %s %q, want %q (%s)", key, name, got, want, column(row, "error")))
			}
		}
	}
	if len(seen) != trials {
		errs = append(errs, fmt.Errorf("%d trials have a row, want %d", len(seen), trials))
	}
	return errors.Join(errs...)
}

// kept returns the digests of the trials whose outcome is final.
func kept(dir string) (map[rundir.Key]string, error) {
	sums, err := rundirtest.Trials(dir)
	if err != nil || sums == nil {
		return nil, err
	}
	st, err := rundir.Read(dir)
	if err != nil {
		return nil, err
	}
	for key := range sums {
		if st.Committed[key].Status != "ok" {
			delete(sums, key) // a person may have it run again
		}
	}
	return sums, nil
}

// changed returns which of the earlier trials have changed.
func changed(before, after map[rundir.Key]string) error {
	var errs []error
	for key, sum := range before {
		switch now, ok := after[key]; {
		case !ok:
			errs = append(errs, fmt.Errorf("%s was committed and is gone", key))
		case now != sum:
			errs = append(errs, fmt.Errorf("%s was committed and has changed", key))
		}
	}
	return errors.Join(errs...)
}

// canaries finds credentials in the files below dirs.
func canaries(secrets []string, dirs ...string) error {
	var errs []error
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) || err == nil && !d.Type().IsRegular() {
				return nil
			}
			if err != nil {
				return err
			}
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if found := contains(b, secrets); found != "" {
				errs = append(errs, fmt.Errorf("the credential %s stands in %s", found, path))
			}
			return nil
		})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// An oracle holds what the emulator knows against what must be.
type oracle struct {
	slack time.Duration // by which a pod may pass its date
	cost  float64       // what the run may cost; 0: no bound
}

// mostUSDPerHour is what three pods at once cost in an hour.
const mostUSDPerHour = 0.24 + 0.24 + 0.43

// increment is how long a budget's end may go unnoticed, a second of each
// meter's own included.
const increment = 3 * time.Second

func (o oracle) check(a runpodtest.Audit) error {
	err := a.Err(o.slack)
	if most := o.cost + mostUSDPerHour*increment.Hours(); o.cost > 0 && a.USD > most {
		err = errors.Join(err, fmt.Errorf("the bill is $%.6f, and the budget $%.6f", a.USD, o.cost))
	}
	return err
}

// watch looks at the command line of every process for credentials, until stop is called.
func watch(secrets func() []string, found func(string)) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(250 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
			}
			all := secrets()
			paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
			if err != nil {
				continue
			}
			for _, path := range paths {
				b, err := os.ReadFile(path)
				if err != nil {
					continue // it has ended
				}
				if s := contains(b, all); s != "" {
					found(fmt.Sprintf("the credential %s stands in a command line: %s", s, strings.ReplaceAll(string(b[:min(len(b), 60)]), "\x00", " ")))
				}
			}
		}
	}()
	return func() {
		close(quit)
		<-done
	}
}
