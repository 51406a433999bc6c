package toolbox

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
)

const (
	maxURLBytes   = 4000
	maxHostBytes  = 253
	maxLabelBytes = 63
	// firstFreePort is where ports start that any user's server may have; below
	// it only those of the web are used, so that no mail or name server is talked to.
	firstFreePort = 1024
)

// localNames are domains that mean this machine or this network to someone.
func localNames() []string {
	return []string{"localhost", "local", "internal", "intranet", "lan", "home.arpa", "in-addr.arpa", "ip6.arpa"}
}

// checkURL parses an address once and refuses everything that two programs may
// read differently. The value it returns is the one that is requested.
func checkURL(raw string) (*url.URL, error) {
	if len(raw) > maxURLBytes {
		return nil, fmt.Errorf("the URL has %d bytes, at most %d are allowed", len(raw), maxURLBytes)
	}
	for i := range len(raw) {
		if c := raw[i]; c <= ' ' || c == 0x7f || c == '\\' {
			return nil, fmt.Errorf("the URL has %q at byte %d; write it percent-encoded", raw[i:i+1], i)
		}
	}
	u, err := url.Parse(raw)
	if err != nil {
		var p *url.Error
		if errors.As(err, &p) {
			err = p.Err
		}
		return nil, fmt.Errorf("not a URL: %s", shorten(err.Error()))
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("only http:// and https:// URLs can be fetched, not %q", shorten(u.Scheme))
	case u.Opaque != "" || u.Host == "":
		return nil, errors.New("the URL has no host; write it as https://host/path")
	case u.User != nil:
		return nil, errors.New("the URL has a user name or password before an @; leave it out")
	}
	if err := checkPort(u); err != nil {
		return nil, err
	}
	if err := checkHost(u); err != nil {
		return nil, err
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

func checkPort(u *url.URL) error {
	text := u.Port()
	if text == "" {
		if strings.HasSuffix(u.Host, ":") {
			return errors.New("the URL has a colon without a port after its host")
		}
		return nil
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || strconv.FormatUint(port, 10) != text {
		return fmt.Errorf("%q is not a port", shorten(text))
	}
	if port < firstFreePort && port != 80 && port != 443 {
		return fmt.Errorf("port %d is not one of the web; use 80, 443 or one from %d on", port, firstFreePort)
	}
	return nil
}

// checkHost judges a host by how it is written, and rewrites it in lower case.
// Where a name leads is judged when it is dialed.
func checkHost(u *url.URL) error {
	host := u.Hostname()
	if strings.HasPrefix(u.Host, "[") {
		a, err := netip.ParseAddr(host)
		if err != nil || !a.Is6() {
			return fmt.Errorf("[%s] is not an IPv6 address", shorten(host))
		}
		return checkAddress(a)
	}
	if err := checkLetters(host); err != nil {
		return err
	}
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	labels := strings.Split(name, ".")
	if len(name) > maxHostBytes {
		return fmt.Errorf("the host name has %d bytes, at most %d are allowed", len(name), maxHostBytes)
	}
	for _, label := range labels {
		if label == "" || len(label) > maxLabelBytes || label[0] == '-' || label[len(label)-1] == '-' {
			return fmt.Errorf("%q is not a host name", shorten(host))
		}
	}
	if looksNumeric(labels[len(labels)-1]) {
		a, err := netip.ParseAddr(host)
		if err != nil {
			return fmt.Errorf("%q is an unusual spelling of an IPv4 address; write four decimal numbers", shorten(host))
		}
		return checkAddress(a)
	}
	for _, local := range localNames() {
		if hasDomain(name, local) {
			return fmt.Errorf("%q belongs to this machine or network: %w", shorten(host), errAddress)
		}
	}
	if len(labels) == 1 {
		return fmt.Errorf("%q has no domain, so it means something local; write the full name", shorten(host))
	}
	if port := u.Port(); port != "" {
		name += ":" + port
	}
	u.Host = name
	return nil
}

// checkLetters lets only letters through that every program agrees on. For a
// name in another script it shows the spelling that is really looked up, so that
// look-alike letters are seen.
func checkLetters(host string) error {
	for i := range len(host) {
		switch c := host[i]; {
		case c >= 0x80:
			ascii, err := idna.Lookup.ToASCII(host)
			if err != nil {
				return fmt.Errorf("%q is not a host name: it has letters that are not allowed", shorten(host))
			}
			return fmt.Errorf("%q has letters outside ASCII; it is looked up as %q, so write that if it is what you mean", shorten(host), shorten(ascii))
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '.', c == '_':
		default:
			return fmt.Errorf("%q is not a host name: it has %q in it", shorten(host), string(c))
		}
	}
	return nil
}

// looksNumeric says whether some program would take a name that ends in this
// label for an IPv4 address: decimal, octal or hexadecimal.
func looksNumeric(label string) bool {
	if digits, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(digits, "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}

// hasDomain says whether a name is a domain or lies below it.
func hasDomain(name, domain string) bool {
	return name == domain || strings.HasSuffix(name, "."+domain)
}
