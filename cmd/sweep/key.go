package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"unicode"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/input"
	"sweep.dev/sweep/internal/secret"
)

// keyPoint is that of a key's file: it has no fault points of its own, and is
// counted like everything else.
const keyPoint effect.Point = "key.create"

// maxKey bounds a file with a key, in bytes.
const maxKey = 64 << 10

// keyFlags say where the API key of a server is. It is never an argument.
func keyFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "key-env", Usage: "the environment `VARIABLE` that holds the API key"},
		&cli.StringFlag{Name: "key-file", Usage: "the `FILE` that holds only the API key"},
	}
}

// keyOf returns the API key that the flags name; "" without a flag. Its errors hold
// nothing of the key.
func (a *app) keyOf(c *cli.Command) (string, error) {
	name, file := c.String("key-env"), c.String("key-file")
	switch {
	case name != "" && file != "":
		return "", errors.New("--key-env and --key-file: only one of them")
	case name != "":
		key, ok := a.env(name)
		if !ok || key == "" {
			return "", fmt.Errorf("--key-env: %s is not set", name)
		}
		return key, nil
	case file == "":
		return "", nil
	}
	b, err := input.ReadNamed(file, maxKey)
	if err != nil {
		return "", fmt.Errorf("--key-file: %w", err)
	}
	key := string(bytes.TrimSpace(b))
	unfit := func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }
	if key == "" || bytes.ContainsFunc([]byte(key), unfit) {
		return "", fmt.Errorf("--key-file: %s: want the key alone, on one line", file)
	}
	return key, nil
}

// writeKey makes a file that only its owner can read, with a key and a line
// break. One that is there is not touched: it may be readable to others.
func (a *app) writeKey(path string, key secret.String) (err error) {
	fx, err := a.effects()
	if err != nil {
		return err
	}
	f, err := fx.CreateNew(keyPoint, path)
	switch {
	case errors.Is(err, fs.ErrExist):
		return &usage{&hinted{fmt.Errorf("--key-file: %s is there already: nothing was written", path), "name a new file, or remove it first"}}
	case err != nil:
		return &usage{fmt.Errorf("--key-file: %w", err)}
	}
	_, err = f.Write([]byte(key.Reveal() + "\n"))
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("--key-file: %w", errors.Join(err, fx.Remove(keyPoint, path)))
	}
	return nil
}
