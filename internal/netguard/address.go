package netguard

import (
	"net/netip"
	"strconv"
	"strings"
)

// Metadata services by name. Most resolve to 169.254.169.254 inside their
// cloud, some to an address that looks like any other.
var metadataNames = []string{
	"instance-data",                // AWS, and instance-data.<domain> below
	"instance-data.ec2.internal",   // AWS
	"metadata",                     // Google, within a search domain
	"metadata.goog",                // Google
	"metadata.google.internal",     // Google
	"metadata.packet.net",          // Equinix
	"metadata.platformequinix.com", // Equinix
	"metadata.tencentyun.com",      // Tencent
}

// Metadata services that are not at a link-local address.
var metadataAddrs = []struct {
	prefix netip.Prefix
	what   string
}{
	{netip.MustParsePrefix("fd00:ec2::/32"), "AWS's metadata service"},
	{netip.MustParsePrefix("fd20:ce::254/128"), "Google's metadata service"},
	{netip.MustParsePrefix("fd00:42::42/128"), "Scaleway's metadata service"},
	{netip.MustParsePrefix("100.100.100.200/32"), "Alibaba's metadata service"},
	{netip.MustParsePrefix("168.63.129.16/32"), "Azure's wire server"},
	{netip.MustParsePrefix("192.0.0.192/32"), "Oracle's metadata service"},
}

// reason says what a is, if that is a reason not to connect to it; else "".
func reason(a netip.Addr) string {
	a = a.WithZone("").Unmap()
	switch {
	case a.IsLoopback():
		return "" // ::1 would carry 0.0.0.1, too
	case a.IsMulticast(), a == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return "a link-local or multicast address, not a server's"
	case a.IsUnspecified(), a.Is4() && a.As4()[0] == 0: // "this network", 0.0.0.0/8
		return "an address to listen on, not to connect to"
	}
	if what := metadata(a); what != "" {
		return what
	}
	for _, v4 := range embedded(a) {
		if what := metadata(v4); what != "" {
			return "a form of " + v4.String() + ", " + what
		}
	}
	return ""
}

// inside says what a is, if that is no address of the internet's; else "".
func inside(a netip.Addr) string {
	a = a.WithZone("").Unmap()
	for _, x := range append(embedded(a), a) {
		switch {
		case a.IsLoopback(): // ::1 would carry 0.0.0.1, too
			return "this machine"
		case x.IsLoopback(), x.IsPrivate(), shared(x):
			return "an address of a private network"
		}
	}
	return ""
}

// shared reports whether an address is one of those between a provider and its customers
// (RFC 6598).
func shared(a netip.Addr) bool {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{100, 64}), 10).Contains(a)
}

func metadata(a netip.Addr) string {
	if a.IsLinkLocalUnicast() {
		return "a link-local address, where metadata services are"
	}
	for _, m := range metadataAddrs {
		if m.prefix.Contains(a) {
			return m.what
		}
	}
	return ""
}

// Where an IPv6 address carries an IPv4 one that a gateway on the way, or this
// machine's kernel, would send the packet on to: the places of its four bytes.
// An IPv4-mapped address has been unmapped before.
var carriers = []struct {
	prefix netip.Prefix
	bytes  [4]int
}{
	{netip.MustParsePrefix("::/96"), [4]int{12, 13, 14, 15}},           // IPv4-compatible
	{netip.MustParsePrefix("::ffff:0:0:0/96"), [4]int{12, 13, 14, 15}}, // IPv4-translated, RFC 2765
	{netip.MustParsePrefix("64:ff9b::/96"), [4]int{12, 13, 14, 15}},    // NAT64, RFC 6052
	{netip.MustParsePrefix("64:ff9b:1::/48"), [4]int{12, 13, 14, 15}},  // NAT64 of a network's own, RFC 8215,
	{netip.MustParsePrefix("64:ff9b:1::/48"), [4]int{7, 9, 10, 11}},    // with prefixes of 96, 56,
	{netip.MustParsePrefix("64:ff9b:1::/48"), [4]int{6, 7, 9, 10}},     // and 48 bits
	{netip.MustParsePrefix("2002::/16"), [4]int{2, 3, 4, 5}},           // 6to4, RFC 3056
}

// embedded lists the IPv4 addresses that an IPv6 address may carry.
func embedded(a netip.Addr) []netip.Addr {
	var list []netip.Addr
	for _, c := range carriers {
		if c.prefix.Contains(a) {
			b := a.As16()
			list = append(list, netip.AddrFrom4([4]byte{b[c.bytes[0]], b[c.bytes[1]], b[c.bytes[2]], b[c.bytes[3]]}))
		}
	}
	return list
}

// legacy reads the notations of an IPv4 address that the C library knows and
// Go does not: one to four numbers in decimal, octal or hexadecimal, of which
// the last fills the bytes that are left.
func legacy(host string) (netip.Addr, bool) {
	parts := strings.Split(host, ".")
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var sum uint64
	for i, part := range parts {
		// Base 0 knows 0b, 0o and 1_000 too, which no resolver does.
		if strings.HasPrefix(part, "0b") || strings.HasPrefix(part, "0o") || strings.Contains(part, "_") {
			return netip.Addr{}, false
		}
		n, err := strconv.ParseUint(part, 0, 32)
		if err != nil {
			return netip.Addr{}, false
		}
		bits := 8
		if i == len(parts)-1 {
			bits = 8 * (5 - len(parts))
		}
		if n >= 1<<bits {
			return netip.Addr{}, false
		}
		sum = sum<<bits | n
	}
	return netip.AddrFrom4([4]byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)}), true
}
