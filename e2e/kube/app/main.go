// Command app is the one program in the image of the tests' pods: it plays every part of
// an inference stack, as far as what looks at one can tell.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// main reads its first argument:
//
//	(none)         waits, as a pod's sandbox does
//	log LINE...    prints the lines, then one with a number each second
//	die AFTER      prints a line and exits with 3 after that time
//	once           dies so on its first start in a pod, and waits afterwards
//
// Arguments after -- are for whoever reads them in the manifest.
func main() {
	args := os.Args[1:]
	for i, a := range args {
		if a == "--" {
			args = args[:i]
			break
		}
	}
	command := ""
	if len(args) > 0 {
		command, args = args[0], args[1:]
	}
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGINT, syscall.SIGTERM)
	var tick <-chan time.Time
	switch command {
	case "log":
		fmt.Println(strings.Join(args, "\n"))
		tick = time.Tick(time.Second)
	case "die":
		after, err := time.ParseDuration(args[0])
		if err != nil {
			fmt.Println(err)
			os.Exit(2)
		}
		time.Sleep(after)
		fmt.Println("CUDA error: out of memory")
		os.Exit(3)
	case "once":
		// The mark is in a volume that the pod's containers share.
		if _, err := os.Stat("/mark/died"); err != nil {
			fmt.Println("CUDA error: out of memory")
			if err := os.WriteFile("/mark/died", nil, 0o600); err != nil {
				fmt.Println(err)
			}
			os.Exit(3)
		}
	}
	for n := 1; ; n++ {
		select {
		case <-tick:
			fmt.Println("line", n)
		case <-end:
			return
		}
	}
}
