package outbound

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A Host is where a variable goes: a name or an address as the plan has it in small
// letters, and the port.
type Host struct {
	Name  string
	Port  string
	Plain bool // over http
}

// HostOf returns the host of a URL.
func HostOf(u *url.URL) Host {
	h := Host{Name: strings.ToLower(u.Hostname()), Port: u.Port(), Plain: u.Scheme == "http"}
	if h.Port == "" {
		h.Port = "443"
		if h.Plain {
			h.Port = "80"
		}
	}
	return h
}

// usual reports whether the host is asked by https at its usual port.
func (h Host) usual() bool { return !h.Plain && h.Port == "443" }

// String returns the host as --send-env takes it, with its port unless that is 443 and
// the scheme https.
func (h Host) String() string {
	name := h.Name
	if strings.Contains(name, ":") {
		name = "[" + name + "]"
	}
	if h.usual() {
		return name
	}
	return name + ":" + h.Port
}

// Loopback reports whether the host is this machine.
func (h Host) Loopback() bool {
	if h.Name == "localhost" {
		return true
	}
	a, err := netip.ParseAddr(h.Name)
	return err == nil && a.IsLoopback()
}

// A Permit is one --send-env NAME=HOST: the variable may go to this host.
type Permit struct{ Name, Host, Port string } // Port "": any

var (
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	hostName     = regexp.MustCompile(`^[a-z0-9_]([a-z0-9._-]*[a-z0-9_])?$`)
)

// ParsePermit reads NAME=HOST or NAME=HOST:PORT. HOST is a name in ASCII, an IPv4 address,
// or an IPv6 address in brackets.
func ParsePermit(text string) (Permit, error) {
	name, at, ok := strings.Cut(text, "=")
	wrong := func(what string) (Permit, error) {
		return Permit{}, fmt.Errorf("--send-env %s: %s: want NAME=HOST or NAME=HOST:PORT, as SWEEP_API_KEY=llm.example.com", text, what)
	}
	if !ok || !variableName.MatchString(name) {
		return wrong("no name of a variable")
	}
	host, port := strings.ToLower(at), ""
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		host, port = host[:i], host[i+1:]
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || strconv.FormatUint(n, 10) != port {
			return wrong("no port")
		}
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		host, ok = strings.CutSuffix(inner, "]")
		if a, err := netip.ParseAddr(host); !ok || err != nil || !a.Is6() {
			return wrong("no address of IPv6")
		}
	} else if !hostName.MatchString(host) {
		return wrong("no host")
	}
	return Permit{name, host, port}, nil
}

// ParsePermits reads several. The error names all that are wrong.
func ParsePermits(texts []string) (list []Permit, err error) {
	var errs []error
	for _, text := range texts {
		p, err := ParsePermit(text)
		list, errs = append(list, p), append(errs, err)
	}
	return list, errors.Join(errs...)
}

// permits compares hosts exactly: no suffix, no other spelling of an address.
func (p Permit) permits(name string, h Host) bool {
	return p.Name == name && p.Host == h.Name && cmp.Or(p.Port, h.Port) == h.Port
}

// permitted reports whether one of the permits is for a variable and a host.
func permitted(list []Permit, name string, h Host) bool {
	return slices.ContainsFunc(list, func(p Permit) bool { return p.permits(name, h) })
}

var (
	whole    = regexp.MustCompile(`^\$\{([^}]*)\}(:[0-9]+|:\$\{[^}]*\})?$`)
	withPort = regexp.MustCompile(`:\$\{[^}]*\}$`)
)

// authority returns the variable that is the host of an address as it is written, "" if
// there is none. mixed reports a variable that is a part of a host. An address that begins
// with a variable may have all of it there.
func authority(ref string) (variable string, mixed bool) {
	if i := strings.Index(ref, "://"); i >= 0 {
		ref = ref[i+len("://"):]
	}
	if end := strings.IndexAny(ref, "/?#\\"); end >= 0 {
		ref = ref[:end]
	}
	if m := whole.FindStringSubmatch(ref); m != nil {
		return m[1], false
	}
	return "", strings.Contains(withPort.ReplaceAllString(ref, ""), "${")
}
