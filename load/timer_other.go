//go:build !linux

package load

func newKernelTimer() sleeper { return nil }
