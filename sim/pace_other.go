//go:build !linux

package sim

import "time"

func sharpen() {}

func nap(d time.Duration) { time.Sleep(d) }
