package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// configVar names another configuration file than the user's usual one.
const configVar = "SWEEP_CONFIG"

// configFile returns the path of the user's configuration: what SWEEP_CONFIG says,
// else sweep/config.yaml in the folder that the system has for that
// (~/.config on Linux, ~/Library/Application Support on macOS); "" if there is
// none. A file that SWEEP_CONFIG names must exist.
func (a *app) configFile() string {
	if path, _ := a.env(configVar); path != "" {
		return path
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	path := filepath.Join(dir, "sweep", "config.yaml")
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return path
}
