package backends

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// CheckArgv refuses a command line that begins with two servers: the classic is
// one that repeats the image's ENTRYPOINT, which the engine takes for arguments.
// replaced says that argv takes the place of the ENTRYPOINT; else it must begin
// with it. The error is an [ErrSpec].
func CheckArgv(argv, entrypoint []string, replaced bool) error {
	if len(argv) == 0 || argv[0] == "" {
		return fmt.Errorf("%w: an empty command line", ErrSpec)
	}
	n := len(entrypoint)
	if n == 0 {
		return nil
	}
	if len(argv) < n || !slices.Equal(argv[:n], entrypoint) {
		if replaced { // by the bootstrap: the image's own does not matter
			return nil
		}
		return fmt.Errorf("%w: the command line begins with %q and the image's ENTRYPOINT is %q: name the image's own in engines.<name>.entrypoint ([] for none)",
			ErrSpec, argv[0], entrypoint)
	}
	rest := argv[n:]
	repeated := len(rest) >= n && slices.Equal(rest[:n], entrypoint)
	interpreter := len(rest) > 1 && python.MatchString(rest[0]) && strings.HasPrefix(rest[1], "-")
	if repeated || interpreter {
		return fmt.Errorf("%w: the command line repeats the image's ENTRYPOINT: %q is followed by %q",
			ErrSpec, strings.Join(entrypoint, " "), strings.Join(rest[:min(2, len(rest))], " "))
	}
	return nil
}

var python = regexp.MustCompile(`^(.*/)?python[0-9.]*$`)
