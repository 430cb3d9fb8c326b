// Command app is the one program in the image of the tests' pods: it plays every part of
// an inference stack, as far as what looks at one can tell.
package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
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
//	replay EPOCH SECONDS LINE...
//	               prints each line so many seconds after a Unix time
//	sum            prints the SHA-256 of its input
//	eat            takes memory until somebody ends it
//	count N        prints numbers quickly, on both outputs; on its first start in a pod
//	               it dies after N of them, in the middle of a line
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
	switch command {
	case "sum":
		h := sha256.New()
		if _, err := io.Copy(h, os.Stdin); err != nil {
			fmt.Println(err)
			os.Exit(2)
		}
		fmt.Printf("%x\n", h.Sum(nil))
		return
	case "eat":
		fmt.Println("eating")
		for taken := [][]byte{}; ; {
			piece := make([]byte, 1<<20)
			for i := range piece {
				piece[i] = 1
			}
			taken = append(taken, piece)
		}
	case "replay":
		replay(args)
	case "count":
		limit := firstStart(args[0])
		for n := 1; ; n++ {
			select {
			case <-end:
				return
			case <-time.After(2 * time.Millisecond):
			}
			out := []*os.File{os.Stdout, os.Stderr}[n/7%2]
			if n == limit {
				fmt.Fprint(out, "CUDA error: out of memory")
				os.Exit(3)
			}
			fmt.Fprintln(out, "count", n)
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

// firstStart returns the number of an argument on the first start in a pod, and 0 later.
func firstStart(arg string) int {
	limit, err := strconv.Atoi(arg)
	if err != nil {
		fmt.Println(err)
		os.Exit(2)
	}
	if _, err := os.Stat("/mark/counted"); err == nil {
		return 0
	}
	if err := os.WriteFile("/mark/counted", nil, 0o600); err != nil {
		fmt.Println(err)
		os.Exit(2)
	}
	return limit
}

// replay prints lines at their times.
func replay(args []string) {
	epoch, err := strconv.ParseInt(args[0], 10, 64)
	for args = args[1:]; err == nil && len(args) > 1; args = args[2:] {
		var after float64
		if after, err = strconv.ParseFloat(args[0], 64); err == nil {
			time.Sleep(time.Until(time.Unix(epoch, 0).Add(time.Duration(after * float64(time.Second)))))
			fmt.Println(args[1])
		}
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(2)
	}
}
