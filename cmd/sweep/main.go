// Command sweep measures how much load an LLM inference server can carry.
package main

import (
	"os"

	"sweep.dev/sweep/internal/guard"
)

func main() {
	guard.Main()
	os.Exit(newApp().main(os.Args))
}
