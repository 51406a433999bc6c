package toolbox

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"testing"
)

// closedAddresses is at least one address, and both ends where they tell more,
// of every network that must not be reached.
func closedAddresses() []string {
	return []string{
		"0.0.0.0", "0.0.0.1", "0.255.255.255", "10.0.0.0", "10.1.2.3", "10.255.255.255",
		"100.64.0.0", "100.100.100.200", "100.127.255.255", "127.0.0.0", "127.0.0.1", "127.0.0.53", "127.1.2.3", "127.255.255.255",
		"168.63.129.16", "169.254.0.0", "169.254.169.254", "169.254.170.2", "169.254.255.255",
		"172.16.0.0", "172.17.0.1", "172.31.255.255", "192.0.0.1", "192.0.0.192", "192.0.0.255", "192.0.2.1", "192.88.99.1",
		"192.168.0.0", "192.168.1.1", "192.168.255.255", "198.18.0.0", "198.19.255.255", "198.51.100.7", "203.0.113.9",
		"224.0.0.1", "239.255.255.250", "239.255.255.255", "240.0.0.1", "255.255.255.254", "255.255.255.255",
		"::", "::1", "::2", "::7f00:1", "::127.0.0.1", "::a00:1", "::ffff:127.0.0.1", "::ffff:7f00:1", "::ffff:8.8.8.8", "::ffff:a9fe:a9fe", "::ffff:0:127.0.0.1",
		"64:ff9b::7f00:1", "64:ff9b::808:808", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "64:ff9b:1:ffff::a00:1", "100::1", "100:0:0:1::1",
		"fc00::", "fc00::1", "fd00::1", "fd00:ec2::254", "fd20:ce::254", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
		"fe80::1", "fe80::a9fe:a9fe", "febf::1", "fec0::1", "feff::1", "ff00::1", "ff02::1", "ff05::2", "ff0e::1",
		"2001::1", "2001:0:7f00:1::", "2001:10::1", "2001:20::1", "2001:1ff::1", "2001:db8::1", "2002::1", "2002:7f00:1::", "2002:a9fe:a9fe::1", "2002:a00:1::1",
		"3fff::1", "3fff:fff::1", "4000::1", "5f00::1", "6000::1", "8000::1", "1::1", "1fff::1", "e000::1", "ffff::1",
	}
}

func publicAddresses() []string {
	return []string{
		"1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "93.184.216.34", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.1", "168.63.129.15",
		"169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0", "191.255.255.255", "192.0.1.1", "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0", "223.255.255.255",
		"2001:200::1", "2001:4860:4860::8888", "2003::1", "2606:4700:4700::1111", "2a00:1450::1", "3ffe::1",
	}
}

// TestAddresses shows which addresses may be reached, alone and in a URL.
func TestAddresses(t *testing.T) {
	bracketed := func(s string) string {
		if strings.Contains(s, ":") {
			return "[" + s + "]"
		}
		return s
	}
	for _, text := range closedAddresses() {
		if err := checkAddress(netip.MustParseAddr(text)); !errors.Is(err, errAddress) {
			t.Errorf("%s may be reached: %v", text, err)
		}
		if _, err := checkURL("http://" + bracketed(text) + "/"); err == nil {
			t.Errorf("%s may be reached by a URL", text)
		}
		if err := checkDial(nil)("tcp6", net.JoinHostPort(text, "80"), nil); !errors.Is(err, errAddress) {
			t.Errorf("%s may be dialed: %v", text, err)
		}
	}
	for _, text := range publicAddresses() {
		if err := checkAddress(netip.MustParseAddr(text)); err != nil {
			t.Error(err)
		}
		if _, err := checkURL("https://" + bracketed(text) + ":8443/x"); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, c := range [][2]string{{"udp4", "8.8.8.8:53"}, {"unix", "/run/x"}, {"tcp4", "8.8.8.8"}, {"tcp4", "example.org:80"}, {"tcp6", "[fe80::1%eth0]:80"}, {"tcp6", "[2606::1%eth0]:80"}} {
		if err := checkDial(nil)(c[0], c[1], nil); !errors.Is(err, errAddress) {
			t.Errorf("%s %s may be dialed: %v", c[0], c[1], err)
		}
	}
}

// refusedURLs are spellings that some program takes for a closed address, or
// that two programs read differently.
func refusedURLs() []string {
	return []string{
		// IPv4 in other clothes
		"http://2130706433/", "http://0x7f000001/", "http://0X7F000001/", "http://017700000001/", "http://0177.0.0.1/", "http://0177.0.0.01/", "http://127.1/", "http://127.0.1/",
		"http://0x7f.1/", "http://0x7f.0x0.0x0.0x1/", "http://127.0.0.0x1/", "http://00000127.0.0.1/", "http://127.000.000.001/", "http://0/", "http://0.0/", "http://00/", "http://0x0/", "http://0x/",
		"http://127.0.0.1./", "http://127.0.0.1.:80/", "http://2130706433./", "http://2852039166/", "http://0xa9fea9fe/", "http://0251.0376.0251.0376/", "http://0xa9.0xfe.0xa9.0xfe/", "http://169.254.43518/",
		"http://169.16689662/", "http://3232235777/", "http://167772161/", "http://4294967296/", "http://256.256.256.256/", "http://1.2.3.4.5/", "http://example.org.1/", "http://127.0.0.1.1/", "http://1.1.1.1.0x1/",
		"http://127。0。0。1/", "http://１２７.0.0.1/", "http://①②⑦.⓪.⓪.①/", "http://127.0.0.%31/", "http://%31%32%37.0.0.1/", "http://127%2e0%2e0%2e1/", "http://8.8.8.8:080/",
		// IPv6
		"http://[::1]", "http://[::1]:80/", "http://[0:0:0:0:0:0:0:1]/", "http://[0000:0000:0000:0000:0000:0000:0000:0001]/", "http://[::127.0.0.1]/", "http://[::ffff:127.0.0.1]/", "http://[::FFFF:7F00:1]/",
		"http://[0:0:0:0:0:ffff:7f00:1]/", "http://[fe80::1%25lo]/", "http://[fe80::1%lo]/", "http://[2606:4700::1%25eth0]/", "http://[::1", "http://::1/", "http://[127.0.0.1]/", "http://[1.1.1.1]/", "http://[v1.x]/", "http://[]/",
		"http://[::1]x/", "http://[::1]:x/", "http://[::]/", "http://[64:ff9b::127.0.0.1]/", "http://[2002:7f00:1::]/", "http://[fd00:ec2::254]/latest/meta-data/",
		// names of what is here
		"http://localhost/", "http://LOCALHOST/", "http://localhost./", "http://a.localhost/", "http://printer.local/", "http://metadata.google.internal/", "http://METADATA.google.INTERNAL./", "http://instance-data.ec2.internal/",
		"http://wiki.intranet/", "http://box.lan/", "http://router.home.arpa/", "http://1.0.0.127.in-addr.arpa/", "http://metadata/", "http://kubernetes/", "http://host/", "http://ip6-localhost/",
		// user names, and what looks like a host but is none
		"http://user@example.org/", "http://user:pass@example.org/", "http://example.org@127.0.0.1/", "http://127.0.0.1@example.org/", "http://@example.org/", "http://:@example.org/", "http://a:b@c:d@example.org/",
		"http://example.org%40127.0.0.1/", "http://example.org\\@127.0.0.1/", "http://example.org\\.evil/", "http:\\\\127.0.0.1\\", "http://127.0.0.1\\@example.org/", "http://example.org&@127.0.0.1/",
		// control characters and other letters
		"http://example.org\x00.evil.test/", "http://example.org%00.evil.test/", "http://exa\tmple.org/", "http://example.org/\r\nHost: x", "http://example.org/a b", " http://example.org/", "http://example.org/\n", "http://example.org\x7f/",
		"http://exämple.org/", "http://еxample.org/", "http://ex\u200bample.org/", "http://example\u3002org/", "http://ⓔxample.org/", "http://%65xample.org/", "http://example.org%2f.evil.test/", "http://exa$mple.org/", "http://a,b.org/",
		"http://example.org;x/", "http://{x}.org/", "http://a..org/", "http://.org/", "http://-a.org/", "http://a-.org/", "http://" + strings.Repeat("a", 64) + ".org/", "http://" + strings.Repeat("a.", 127) + "org/",
		// other schemes and shapes
		"file:///etc/passwd", "ftp://example.org/", "gopher://example.org/", "data:text/plain,x", "javascript:alert(1)", "dict://example.org/", "ldap://example.org/", "unix:///run/x", "ws://example.org/", "about:blank", "jar:http://example.org!/",
		"http:example.org", "http:/example.org", "http:///path", "http://", "//example.org/", "example.org", "/etc/passwd", "", "http://?x", "http://#x", "://x", "http:",
		// ports
		"http://example.org:22/", "http://example.org:25/", "http://example.org:0/", "http://example.org:65536/", "http://example.org:99999/", "http://example.org:-1/", "http://example.org:80a/", "http://example.org:/", "http://example.org:0443/",
		"http://example.org:53/", "http://example.org:110/", "http://example.org:1023/", "http://example.org:80:80/",
		"https://example.org/" + strings.Repeat("x", maxURLBytes),
	}
}

// TestRefusedURLs shows that none of the spellings reaches anything: it is
// refused before a name is looked up.
func TestRefusedURLs(t *testing.T) {
	vectors := len(closedAddresses()) + len(publicAddresses())
	f := fetcher{resolver: &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		t.Error("a name was looked up")
		return nil, errors.New("no network here")
	}}}
	for _, raw := range refusedURLs() {
		vectors++
		if _, err := f.get(context.Background(), raw); err == nil {
			t.Errorf("%q was fetched", raw)
		}
		if u, err := checkURL(raw); err == nil {
			t.Errorf("%q is let through as %q", raw, u)
		}
	}
	if vectors < 250 {
		t.Errorf("only %d vectors", vectors)
	}
}

// TestCheckURL shows what is let through, how it is written then, and what a
// model is told about the rest.
func TestCheckURL(t *testing.T) {
	for raw, want := range map[string]string{
		"https://example.org":                         "https://example.org",
		"HTTPS://Example.ORG./A?q=1#part":             "https://example.org/A?q=1",
		"http://example.org:8080/a%20b":               "http://example.org:8080/a%20b",
		"https://xn--exmple-cua.org/":                 "https://xn--exmple-cua.org/",
		"https://1password.example.org/":              "https://1password.example.org/",
		"https://a_b.example.org/":                    "https://a_b.example.org/",
		"https://0xcafe.org/":                         "https://0xcafe.org/",
		"https://localhost.example.org/":              "https://localhost.example.org/",
		"https://example.org/@user":                   "https://example.org/@user",
		"https://8.8.8.8/":                            "https://8.8.8.8/",
		"https://[2606:4700:4700::1111]:443/":         "https://[2606:4700:4700::1111]:443/",
		"https://example.org/?u=http://127.0.0.1/%5C": "https://example.org/?u=http://127.0.0.1/%5C",
	} {
		u, err := checkURL(raw)
		if err != nil || u.String() != want {
			t.Errorf("%s becomes %v, %v", raw, u, err)
		}
	}
	for raw, says := range map[string]string{
		"http://127.0.0.1/":        "not a public address: 127.0.0.1 is loopback",
		"http://169.254.169.254/":  "where clouds keep their metadata",
		"http://0x7f.1/":           "unusual spelling of an IPv4 address",
		"http://exämple.org/":      `looked up as "xn--exmple-cua.org"`,
		"http://u:p@example.org/":  "user name or password",
		"ftp://example.org/":       `only http:// and https:// URLs can be fetched, not "ftp"`,
		"http://example.org/a b":   `has " " at byte 20`,
		"http://example.org:22/":   "port 22 is not one of the web",
		"http://wiki/":             "has no domain",
		"http://printer.local/":    "belongs to this machine or network",
		"http://[fe80::1%25eth0]/": "names an interface of this machine",
	} {
		_, err := checkURL(raw)
		wantError(t, err, says)
	}
}

// FuzzURL shows that a URL that is let through means the same when it is read
// again, and never an address that is closed.
func FuzzURL(f *testing.F) {
	for _, raw := range refusedURLs() {
		f.Add(raw)
	}
	for _, raw := range []string{"https://example.org/a?b#c", "http://8.8.8.8:8080", "https://[2606:4700::1]/", "HTTP://EXAMPLE.org./%2e%2e/"} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := checkURL(raw)
		if err != nil {
			return
		}
		again, err := checkURL(u.String())
		if err != nil || again.Host != u.Host || again.String() != u.String() {
			t.Fatalf("%q becomes %q, then %v, %v", raw, u, again, err)
		}
		other, err := url.Parse(u.String())
		if err != nil || other.Host != u.Host || other.User != nil || other.Scheme != "http" && other.Scheme != "https" {
			t.Fatalf("%q is read by others as %+v, %v", u, other, err)
		}
		host := u.Hostname()
		if a, err := netip.ParseAddr(host); err == nil && checkAddress(a) != nil {
			t.Fatalf("%q leads to %s", raw, a)
		}
		// What the C library would read as a number is not let through as a name.
		if a := net.ParseIP(host); a == nil && strings.Trim(host, "0123456789.") == "" {
			t.Fatalf("%q has the host %q", raw, host)
		}
		for i := range len(host) {
			if c := host[i]; c <= ' ' || c >= 0x7f || c == '@' || c == '%' || c == '\\' || c == '/' {
				t.Fatalf("%q has the host %q", raw, host)
			}
		}
	})
}
