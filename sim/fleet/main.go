package fleet

import (
	"context"
	"fmt"
	"io"
)

// Main runs one role until ctx is done and returns its exit status.
func Main(ctx context.Context, args []string, single Single, stdout, stderr io.Writer) int {
	fmt.Fprintln(stderr, "sweep sim: no such role")
	return 2
}
