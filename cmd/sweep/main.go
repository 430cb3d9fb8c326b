// Command sweep measures how much load an LLM inference server can carry.
package main

import (
	"os"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/internal/guard"
)

func main() {
	guard.Main()
	cli.HelpPrinter = printHelp
	os.Exit(newApp().main(os.Args))
}
