//go:build !linux

package live

import "time"

func sharpen() {}

func nap(d time.Duration) { time.Sleep(d) }
