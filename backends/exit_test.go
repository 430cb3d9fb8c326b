package backends_test

import (
	"testing"

	"sweep.dev/sweep/backends"
)

func TestShellExit(t *testing.T) {
	for _, test := range []struct {
		status int
		oom    bool
		want   backends.Exit
	}{
		{0, false, backends.Exit{}},
		{1, true, backends.Exit{Code: 1, OOMKilled: true}},
		{128, false, backends.Exit{Code: 128}},
		{137, true, backends.Exit{Code: -1, Signal: "killed", OOMKilled: true}},
		{139, false, backends.Exit{Code: -1, Signal: "segmentation fault"}},
		{192, false, backends.Exit{Code: -1, Signal: "signal 64"}},
		{193, false, backends.Exit{Code: 193}},
		{255, false, backends.Exit{Code: 255}},
	} {
		test.want.Role, test.want.Replica = "decode", 2
		if got := backends.ShellExit("decode", 2, test.status, test.oom); *got != test.want {
			t.Errorf("%d: got %+v, want %+v", test.status, *got, test.want)
		}
	}
}
