//go:build !linux

package rundir_test

import "errors"

// playFullDisk needs a file system of its own: see TestFullDisk_byFault.
func playFullDisk(string) error { return errors.ErrUnsupported }
