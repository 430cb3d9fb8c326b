package rundir

import (
	"encoding/json"
	"fmt"
	"io"
	"path"

	"sweep.dev/sweep/internal/effect"
)

// WriteLaunch keeps what a launch was started with, as launch.json in its
// folder.
func (d *Dir) WriteLaunch(deployment string, n int, launch any) error {
	name, err := launchName(deployment, n)
	if err != nil {
		return err
	}
	err = d.files.WriteFileAtomic(effect.LaunchCreate, path.Join(name, "launch.json"), func(w io.Writer) error {
		enc := json.NewEncoder(w)
		enc.SetIndent("", " ")
		return enc.Encode(launch)
	})
	if err != nil {
		return fmt.Errorf("launch.json: %w", err)
	}
	return nil
}
