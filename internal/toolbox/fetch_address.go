package toolbox

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"
)

// errAddress marks a connection that was refused because of where it leads.
var errAddress = errors.New("not a public address")

// closed are the networks no fetch may reach, with the reason a model is told.
// They are those of IANA's special-purpose registries that are not plainly part
// of the public Internet, and a cloud's host service that hides in public space.
func closed() []network {
	return []network{
		{"0.0.0.0/8", "this host"},
		{"10.0.0.0/8", "private"},
		{"100.64.0.0/10", "shared by a carrier"},
		{"127.0.0.0/8", "loopback"},
		{"168.63.129.16/32", "a cloud's host service"},
		{"169.254.0.0/16", "link-local, where clouds keep their metadata"},
		{"172.16.0.0/12", "private"},
		{"192.0.0.0/24", "reserved for protocols"},
		{"192.0.2.0/24", "for documentation"},
		{"192.88.99.0/24", "a 6to4 relay"},
		{"192.168.0.0/16", "private"},
		{"198.18.0.0/15", "for benchmarks"},
		{"198.51.100.0/24", "for documentation"},
		{"203.0.113.0/24", "for documentation"},
		{"224.0.0.0/4", "multicast"},
		{"240.0.0.0/4", "reserved"},
		{"::/128", "this host"},
		{"::1/128", "loopback"},
		{"::ffff:0:0/96", "an IPv4 address in disguise"},
		{"::/96", "an IPv4 address in disguise"},
		{"64:ff9b::/96", "an IPv4 address behind NAT64"},
		{"64:ff9b:1::/48", "an IPv4 address behind NAT64"},
		{"fc00::/7", "private"},
		{"fe80::/10", "link-local"},
		{"fec0::/10", "site-local"},
		{"ff00::/8", "multicast"},
		{"2001::/23", "reserved for protocols such as Teredo"},
		{"2001:db8::/32", "for documentation"},
		{"2002::/16", "an IPv4 address behind 6to4"},
		{"3fff::/20", "for documentation"},
	}
}

type network struct{ prefix, what string }

// publicIPv6 is all that is handed out as public IPv6 so far.
const publicIPv6 = "2000::/3"

// checkAddress refuses every address that is not plainly public.
func checkAddress(a netip.Addr) error {
	if !a.IsValid() || a.Zone() != "" {
		return fmt.Errorf("%w: %s names an interface of this machine", errAddress, a)
	}
	for _, n := range closed() {
		if netip.MustParsePrefix(n.prefix).Contains(a) {
			return fmt.Errorf("%w: %s is %s", errAddress, a, n.what)
		}
	}
	// Contains never matches an IPv4 address in IPv6 form against the rest, so
	// what is still mapped here would be an unknown form of it.
	if a.Is4In6() || a.Is6() && !netip.MustParsePrefix(publicIPv6).Contains(a) {
		return fmt.Errorf("%w: %s is reserved", errAddress, a)
	}
	return nil
}

// checkDial is asked by the dialer for every address it is about to connect to,
// after names are resolved. So neither a redirect nor a name that changes its
// meaning between two look-ups reaches a closed network.
func checkDial(permit func(netip.Addr) bool) func(network, address string, _ syscall.RawConn) error {
	return func(network, address string, _ syscall.RawConn) error {
		if network != "tcp4" && network != "tcp6" {
			return fmt.Errorf("%w: %s is not TCP", errAddress, network)
		}
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("%w: %w", errAddress, err)
		}
		if permit != nil && permit(to.Addr()) {
			return nil
		}
		return checkAddress(to.Addr())
	}
}
