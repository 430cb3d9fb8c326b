package rundir_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A disk of 3 MiB fills up in the middle of a run. It is a tmpfs in a mount
// name space of the child's own, so that nothing is left behind.
func TestFullDisk(t *testing.T) {
	mount := filepath.Join(t.TempDir(), "disk")
	if err := os.Mkdir(mount, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := child("fulldisk", "", mount)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSYS) {
		t.Log("no name spaces here: TestFullDisk_byFault is all there is")
		return
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func playFullDisk(mount string) error {
	if err := syscall.Mount("tmpfs", mount, "tmpfs", 0, "size=3m"); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	return fullDisk(mount, nil, func() error {
		f, err := os.Create(filepath.Join(mount, "filler"))
		if err != nil {
			return err
		}
		defer f.Close()
		for {
			if _, err := f.Write(make([]byte, 4096)); errors.Is(err, syscall.ENOSPC) {
				return nil
			} else if err != nil {
				return err
			}
		}
	})
}
