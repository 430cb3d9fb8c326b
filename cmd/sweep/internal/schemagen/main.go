// Command schemagen writes the JSON Schemas of the plan language, of engine
// profiles and of providers' programs, the reference of the plan's keys in
// docs/keys.md, the tables of findings in docs/run.md, and those of the programs'
// protocol in docs/providers.md. It is run by go generate in package schemas, which
// embeds the schemas.
package main

import (
	"fmt"
	"os"

	"sweep.dev/sweep/cmd/sweep/internal/vocabulary"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "schemagen:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 6 {
		return fmt.Errorf("want the schema of plans, the page of plans, the schema of engines, the page of runs, the schema of providers and their page, got %d arguments", len(args))
	}
	programs, err := generateProvider()
	if err != nil {
		return err
	}
	if err := write(args[4], programs); err != nil {
		return err
	}
	if err := renew(args[5], documentProvider); err != nil {
		return err
	}
	profiles, err := generateEngine()
	if err != nil {
		return err
	}
	if err := write(args[2], profiles); err != nil {
		return err
	}
	text, err := generate(vocabulary.All())
	if err != nil {
		return err
	}
	if err := write(args[0], text); err != nil {
		return err
	}
	if err := renew(args[1], func(page []byte) ([]byte, error) { return document(page, vocabulary.All()) }); err != nil {
		return err
	}
	return renew(args[3], findings)
}

// renew replaces a page by what is made of it.
func renew(name string, page func([]byte) ([]byte, error)) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if text, err = page(text); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return write(name, text)
}

// write replaces a file of the repository: nothing that a crash could lose.
func write(name string, text []byte) error {
	return os.WriteFile(name, text, 0o644) //nolint:forbidigo // a tool of the build; git has what was there before
}
