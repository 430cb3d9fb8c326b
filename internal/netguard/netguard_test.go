package netguard_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sweep.dev/sweep/internal/netguard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Where a connection ends, whatever it was called before.
func TestControl(t *testing.T) {
	for _, c := range []struct {
		address string
		want    string // in the refusal; "" is let through
	}{
		{"127.0.0.1:80", ""},
		{"127.8.8.8:80", ""},
		{"[::1]:80", ""},
		{"[::ffff:127.0.0.1]:80", ""},
		{"10.1.2.3:80", ""},
		{"192.168.1.1:80", ""},
		{"100.64.0.1:80", ""},
		{"[fd12:3456::1]:80", ""},
		{"93.184.216.34:443", ""},
		{"[2606:2800:220:1::1]:443", ""},
		{"[64:ff9b::5db8:d822]:443", ""}, // a public server behind NAT64
		{"[2002:5db8:d822::1]:443", ""},

		{"169.254.169.254:80", "link-local"}, // AWS, Google, Azure, most others
		{"169.254.170.2:80", "link-local"},   // AWS's containers
		{"169.254.0.1:80", "link-local"},
		{"169.254.255.255:80", "link-local"},
		{"[fe80::1%eth0]:80", "link-local"},
		{"[fe80::a9fe:a9fe]:80", "link-local"}, // OpenStack
		{"[febf::1]:80", "link-local"},
		{"[fd00:ec2::254]:80", "AWS"},
		{"[fd00:ec2::23]:80", "AWS"},
		{"[fd20:ce::254]:80", "Google"},
		{"[fd00:42::42]:80", "Scaleway"},
		{"100.100.100.200:80", "Alibaba"},
		{"168.63.129.16:80", "Azure"},
		{"192.0.0.192:80", "Oracle"},
		{"224.0.0.1:80", "multicast"},
		{"[ff02::1]:80", "multicast"},
		{"255.255.255.255:80", "multicast"},
		{"0.0.0.0:80", "to listen on"},
		{"0.1.2.3:80", "to listen on"},
		{"[::]:80", "to listen on"},

		// The same ones inside an IPv6 address.
		{"[::ffff:169.254.169.254]:80", "link-local"},
		{"[::ffff:100.100.100.200]:80", "Alibaba"},
		{"[::169.254.169.254]:80", "a form of 169.254.169.254"},
		{"[::ffff:0:169.254.169.254]:80", "a form of 169.254.169.254"},
		{"[64:ff9b::a9fe:a9fe]:80", "a form of 169.254.169.254"},
		{"[64:ff9b::6464:64c8]:80", "Alibaba"},
		{"[64:ff9b:1::a9fe:a9fe]:80", "a form of 169.254.169.254"},
		{"[64:ff9b:1:a9fe:a9:fe00::]:80", "a form of 169.254.169.254"},
		{"[64:ff9b:1:ffa9:fe:a9fe::]:80", "a form of 169.254.169.254"},
		{"[2002:a9fe:a9fe::1]:80", "a form of 169.254.169.254"},

		{"/var/run/socket", "not an address"},
		{"example.com:80", "not an address"},
	} {
		err := netguard.Guard{}.Control("tcp", c.address, nil)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.address, err)
		case c.want != "" && (!errors.Is(err, netguard.ErrRefused) || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: got %v, want it refused: %s", c.address, err, c.want)
		}
		permitted := netguard.Guard{AllowLinkLocal: true}.Control("tcp", c.address, nil)
		if isAddress := c.want != "not an address"; (permitted == nil) != isAddress {
			t.Errorf("%s, permitted: %v", c.address, permitted)
		}
	}
}

// Check refuses these hosts before anything is resolved, with a text that says why.
func TestCheck(t *testing.T) {
	for _, c := range []struct{ host, want string }{
		{"llm.example.com", ""},
		{"metadata.example.com", ""},
		{"mymetadata.google.internal.example.com", ""},
		{"localhost", ""},
		{"127.0.0.1", ""},
		{"2130706433", ""}, // 127.0.0.1
		{"0x7f.1", ""},
		{"256.256.256.256", ""}, // no address: the resolver will say so
		{"1.2.3.4.5", ""},
		{"4294967296", ""},
		{"08.1.1.1", ""},
		{"", ""},
		{"0b1.0.0.0", ""},
		{"1_6.0.0.0", ""},

		{"metadata", "metadata service"},
		{"metadata.google.internal", "metadata service"},
		{"METADATA.Google.Internal.", "metadata service"},
		{"v1.metadata.google.internal", "metadata service"},
		{"metadata.goog", "metadata service"},
		{"instance-data", "metadata service"},
		{"instance-data.ec2.internal", "metadata service"},
		{"metadata.tencentyun.com", "metadata service"},
		{"169.254.169.254", "link-local"},
		{"[fe80::1]", "link-local"},
		{"fe80::1%eth0", "link-local"},
		{"::ffff:a9fe:a9fe", "link-local"},
		// The C library's resolver takes these for 169.254.169.254.
		{"2852039166", "169.254.169.254 is"},
		{"0xa9fea9fe", "169.254.169.254 is"},
		{"0XA9FEA9FE", "169.254.169.254 is"},
		{"025177524776", "169.254.169.254 is"},
		{"0251.0376.0251.0376", "169.254.169.254 is"},
		{"0xa9.0xfe.0xa9.0xfe", "169.254.169.254 is"},
		{"169.254.43518", "169.254.169.254 is"},
		{"169.16689662", "169.254.169.254 is"},
		{"0251.254.0xa9.0376", "169.254.169.254 is"},
		{"0", "to listen on"},
		{"0x0", "to listen on"},
	} {
		err := netguard.Guard{Hint: "allow_link_local permits it"}.Check(c.host)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%q: %v", c.host, err)
		case c.want != "" && (!errors.Is(err, netguard.ErrRefused) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "allow_link_local")):
			t.Errorf("%q: got %v, want it refused: %s", c.host, err, c.want)
		}
		if err := (netguard.Guard{AllowLinkLocal: true}).Check(c.host); err != nil {
			t.Errorf("%q, permitted: %v", c.host, err)
		}
	}
}

func TestDial(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	c, err := netguard.Dial(ctx, "tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	for _, addr := range []string{
		"169.254.169.254:80", "[::ffff:a9fe:a9fe]:80", "2852039166:80", "0xa9fea9fe:80", "0251.0376.0251.0376:80",
		"metadata.google.internal:80", "0.0.0.0:80",
	} {
		if c, err := netguard.Dial(ctx, "tcp", addr); err == nil {
			c.Close()
			t.Errorf("%s: connected", addr)
		} else if !errors.Is(err, netguard.ErrRefused) {
			t.Errorf("%s: got %v", addr, err)
		}
	}
	if _, err := netguard.Dial(ctx, "tcp", "no port"); err == nil {
		t.Error("an address without a port was dialled")
	}
}

// A name that resolves to something else when it is dialled than when it was
// looked at changes nothing: here a resolver that says 169.254.169.254.
func TestControl_rebinding(t *testing.T) {
	d := net.Dialer{Control: netguard.Guard{}.Control, Resolver: &net.Resolver{PreferGo: true, Dial: rebind}}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := (netguard.Guard{}).Check("harmless.example.com"); err != nil {
		t.Fatal(err)
	}
	c, err := d.DialContext(ctx, "tcp", "harmless.example.com:80")
	if err == nil {
		c.Close()
	}
	if !errors.Is(err, netguard.ErrRefused) || !strings.Contains(err.Error(), "169.254.169.254") {
		t.Errorf("got %v", err)
	}
}

// rebind returns a connection to a DNS server that knows one address.
func rebind(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	go func() {
		defer theirs.Close()
		// As over TCP: two bytes of length before every message.
		for {
			var head [2]byte
			if _, err := io.ReadFull(theirs, head[:]); err != nil {
				return
			}
			q := make([]byte, int(head[0])<<8|int(head[1]))
			if _, err := io.ReadFull(theirs, q); err != nil {
				return
			}
			end := 12
			for q[end] != 0 {
				end += int(q[end]) + 1
			}
			end += 5 // the root, type and class
			isA := q[end-3] == 1
			a := append([]byte{q[0], q[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, q[12:end]...)
			if isA {
				a[7] = 1
				a = append(a, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 169, 254, 169, 254)
			}
			if _, err := theirs.Write(append([]byte{byte(len(a) >> 8), byte(len(a))}, a...)); err != nil {
				return
			}
		}
	}()
	return ours, nil
}

// A key goes to the host it was sent to and nowhere else: not with
// Authorization, which net/http would take off, and not with other headers,
// which it would not.
func TestClient_noRedirect(t *testing.T) {
	evil := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("another host was asked for %s, with %v", r.URL, r.Header)
	}))
	defer evil.Close()
	for _, code := range []int{301, 302, 303, 307, 308} {
		s := httptest.NewServer(http.RedirectHandler(evil.URL+"/v1", code))
		client := netguard.Client(nil, 10*time.Second)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, strings.NewReader("body"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer canary")
		req.Header.Set("X-Api-Key", "canary")
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != code {
			t.Errorf("got status %d, want the redirect itself: %d", resp.StatusCode, code)
		}
		client.CloseIdleConnections()
		s.Close()
	}
}

func TestClient_dials(t *testing.T) {
	client := netguard.Client(nil, 10*time.Second)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://169.254.169.254/latest/meta-data/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err == nil {
		resp.Body.Close()
	}
	if !errors.Is(err, netguard.ErrRefused) {
		t.Errorf("got %v", err)
	}
}

// A guard of public addresses refuses those of this machine and of private networks.
func TestGuard_public(t *testing.T) {
	for address, want := range map[string]string{
		"127.0.0.1:80":            "this machine",
		"[::1]:80":                "this machine",
		"[::ffff:127.0.0.1]:80":   "this machine",
		"10.1.2.3:80":             "private network",
		"172.16.0.1:80":           "private network",
		"192.168.1.1:80":          "private network",
		"100.64.0.1:80":           "private network",
		"[fd12:3456::1]:80":       "private network",
		"[64:ff9b::a01:203]:80":   "private network",
		"169.254.169.254:80":      "link-local",
		"93.184.216.34:443":       "",
		"[2606:2800:220:1::1]:80": "",
		"[64:ff9b::5db8:d822]:80": "",
	} {
		err := netguard.Guard{Public: true}.Control("tcp", address, nil)
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", address, err)
		case want != "" && (!errors.Is(err, netguard.ErrRefused) || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: got %v, want %q", address, err, want)
		}
	}
}
