package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/internal/bounded"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/netguard"
)

// A containerHost is one engine in a container.
type containerHost struct {
	b       *Backend
	id      string // of the container
	network reach
	address string         // host:port of the engine, as seen from here
	ports   map[string]int // further ones by name
	log     string         // "" if there is none
	user    string         // that commands run as; "" is the container's
}

var (
	_ host.Host   = (*containerHost)(nil)
	_ host.Porter = (*containerHost)(nil)
)

func (h *containerHost) URL() string { return "http://" + h.address }

// Addr implements [host.Porter].
func (h *containerHost) Addr(name string) string {
	if port, ok := h.ports[name]; ok {
		return net.JoinHostPort(loopbackIP, strconv.Itoa(port))
	}
	return ""
}

// Path is direct for a container's own address, and proxy for a published port,
// behind which a process of the daemon copies.
func (h *containerHost) Path() host.Path {
	if h.network.ip.IsValid() {
		return host.Direct
	}
	return host.Proxy
}

// Dial opens a connection to the container. A port of its loopback address,
// where an engine does not listen that others can reach, is taken for the same
// port of its own.
func (h *containerHost) Dial(ctx context.Context, netw, addr string) (net.Conn, error) {
	seen, err := h.network.seenFromHere(addr)
	if err != nil {
		return nil, err
	}
	return netguard.Dial(ctx, netw, seen)
}

func (h *containerHost) Logs(context.Context) (io.ReadCloser, error) { return host.OpenLog(h.log) }

// Exec runs a command in the container. Docker cannot end it: what goes on
// after ctx has ended goes on until the container ends.
func (h *containerHost) Exec(ctx context.Context, argv ...string) ([]byte, error) {
	return h.b.exec(ctx, h.id, client.ExecCreateOptions{User: h.user, Cmd: argv})
}

// maxErrors is how many bytes of a command's stderr stand in its error.
const maxErrors = 1 << 10

// An execError is a command in a container that did not succeed.
type execError struct {
	command string
	code    int
	said    string
}

func (e *execError) Error() string {
	if e.said == "" {
		return fmt.Sprintf("%s: exit status %d", e.command, e.code)
	}
	return fmt.Sprintf("%s: exit status %d: %s", e.command, e.code, e.said)
}

// exec runs a command in a container and returns its stdout, at most [host.MaxOutput].
func (b *Backend) exec(ctx context.Context, id string, options client.ExecCreateOptions) ([]byte, error) {
	if len(options.Cmd) == 0 {
		return nil, errors.New("no command")
	}
	options.AttachStdout, options.AttachStderr = true, true
	stdout := &bounded.Buffer{Max: host.MaxOutput, Full: func() error { return host.ErrTooLong }}
	stderr := &bounded.Buffer{Max: maxErrors}
	var code int
	err := b.call(ctx, effect.DockerExec, func(ctx context.Context) error {
		made, err := b.api.ExecCreate(ctx, id, options)
		if err != nil {
			return err
		}
		stream, err := b.api.ExecAttach(ctx, made.ID, client.ExecAttachOptions{})
		if err != nil {
			return err
		}
		defer stream.Close()
		stop := context.AfterFunc(ctx, stream.Close) // it has its own connection, which knows no context
		defer stop()
		_, err = stdcopy.StdCopy(stdout, stderr, stream.Reader)
		if err != nil {
			return err
		}
		if ctx.Err() != nil { // what looks like the end of the output was ours
			return ctx.Err()
		}
		res, err := b.api.ExecInspect(ctx, made.ID, client.ExecInspectOptions{})
		code = res.ExitCode
		return err
	})
	said := strings.TrimSpace(stderr.String())
	switch {
	case err != nil && said != "":
		return stdout.Bytes(), fmt.Errorf("%s: %w: %s", options.Cmd[0], err, said)
	case err != nil:
		return stdout.Bytes(), fmt.Errorf("%s: %w", options.Cmd[0], err)
	case code != 0:
		if said == "" { // where the runtime says that there is no such command
			said = strings.TrimSpace(stdout.String())
		}
		return stdout.Bytes(), &execError{options.Cmd[0], code, said}
	}
	return stdout.Bytes(), nil
}

// A reach is how the ports of a container are reached from here.
type reach struct {
	ip        netip.Addr // the container's own, if it can be reached; else invalid
	published map[uint16]netip.AddrPort
}

// reachOf finds out how a running container is reached. Its own address is
// good where the bridge that it is on is an interface of this machine: on a
// desktop, where the daemon is in a virtual machine, it is not.
func reachOf(c container.InspectResponse) reach {
	var here []netip.Addr
	addrs, _ := net.InterfaceAddrs() // without any, the published ports are left
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			here = append(here, p.Addr())
		}
	}
	return reachFrom(here, c)
}

func reachFrom(here []netip.Addr, c container.InspectResponse) reach {
	r := reach{published: map[uint16]netip.AddrPort{}}
	if c.HostConfig != nil && c.HostConfig.NetworkMode.IsHost() {
		r.ip = netip.AddrFrom4([4]byte{127, 0, 0, 1})
		return r
	}
	if c.NetworkSettings == nil {
		return r
	}
	for _, e := range c.NetworkSettings.Networks {
		if e == nil || !e.IPAddress.IsValid() || e.IPAddress.IsUnspecified() {
			continue
		}
		for _, a := range here {
			if a == e.Gateway && (!r.ip.IsValid() || e.IPAddress.Less(r.ip)) {
				r.ip = e.IPAddress
			}
		}
	}
	for port, bindings := range c.NetworkSettings.Ports {
		for _, b := range bindings {
			n, err := strconv.ParseUint(b.HostPort, 10, 16)
			if err != nil || n == 0 || port.Proto() != network.TCP || b.HostIP.Is6() {
				continue
			}
			ip := b.HostIP
			if !ip.IsValid() || ip.IsUnspecified() {
				ip = netip.AddrFrom4([4]byte{127, 0, 0, 1})
			}
			r.published[port.Num()] = netip.AddrPortFrom(ip, uint16(n))
		}
	}
	return r
}

// port returns the address of a port of the container, as seen from here; "" if
// it cannot be reached.
func (r reach) port(n int) string {
	switch p, ok := r.published[uint16(n)]; {
	case r.ip.IsValid():
		return netip.AddrPortFrom(r.ip, uint16(n)).String()
	case ok:
		return p.String()
	default:
		return ""
	}
}

// seenFromHere translates host:port as seen from the engine.
func (r reach) seenFromHere(addr string) (string, error) {
	h, p, err := net.SplitHostPort(addr)
	if err != nil {
		return "", err
	}
	n, err := strconv.Atoi(p)
	if err != nil {
		return "", fmt.Errorf("dial %s: no such port", addr)
	}
	ip, err := netip.ParseAddr(h)
	own := h == "localhost" || err == nil && (ip.IsLoopback() || ip.IsUnspecified())
	if !own {
		return addr, nil
	}
	for _, published := range r.published {
		if published.String() == addr {
			return addr, nil // it is as seen from here already: URL's
		}
	}
	if seen := r.port(n); seen != "" {
		return seen, nil
	}
	return "", fmt.Errorf("dial %s: the container does not publish that port, and this machine cannot reach the container's own address", addr)
}

// nowhere is the address of a container that ended before its address was read.
const nowhere = "127.0.0.1:0"

func addressOf(c container.InspectResponse, port int) string {
	if a := reachOf(c).port(port); a != "" {
		return a
	}
	return nowhere
}
