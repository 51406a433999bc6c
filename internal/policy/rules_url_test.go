package policy

import (
	"net/url"
	"strings"
	"testing"

	"stave/internal/machine/tool"
)

// addressCases are URLs and what an allow and a deny rule make of them. "?" is a
// question: the rule may be about it.
var addressCases = []struct{ pattern, url, allow, deny string }{
	{"https://example.org/**", "https://example.org/a/b", "yes", "yes"},
	{"https://example.org/**", "https://example.org/", "yes", "yes"},
	{"https://example.org/**", "https://example.org", "yes", "yes"},
	{"https://example.org/**", "https://example.org?q=/../x", "yes", "yes"},
	{"https://example.org/**", "https://example.org/a?next=https://evil.test/", "yes", "yes"},
	{"https://example.org/**", "https://example.org/a#b", "yes", "yes"},
	{"https://example.org/**", "HTTPS://EXAMPLE.org/a", "yes", "yes"},
	{"https://example.org/**", "https://example.org:443/a", "yes", "yes"},
	{"https://example.org:443/**", "https://example.org/a", "yes", "yes"},
	{"http://example.org/**", "http://example.org:80/a", "yes", "yes"},
	{"https://example.org/**", "https://example.org:80/a", "no", "yes"},
	{"https://example.org/**", "https://example.org:8443/a", "no", "yes"},
	{"https://example.org:8443/**", "https://example.org:8443/a", "yes", "yes"},
	{"https://example.org:8443/**", "https://example.org/a", "no", "no"},
	{"https://example.org/**", "http://example.org/a", "no", "no"},
	{"https://example.org/**", "https://example.org.evil.test/a", "no", "no"},
	{"https://example.org/**", "https://evilexample.org/a", "no", "no"},
	{"https://example.org/**", "https://evil-example.org/a", "no", "no"},
	{"https://example.org/**", "https://www.example.org/a", "no", "no"},
	{"https://example.org/**", "https://evil.test/example.org/a", "no", "no"},
	{"https://example.org/**", "https://evil.test/https://example.org/a", "no", "no"},
	{"https://example.org/**", "https://evil.test?https://example.org/a", "no", "no"},
	{"https://example.org/**", "https://evil.test#https://example.org/a", "no", "no"},
	{"https://example.org/**", "https://example.org@evil.test/a", "no", "?"},
	{"https://example.org/**", "https://example.org:443@evil.test/a", "no", "?"},
	{"https://example.org/**", "https://example.org:x@evil.test/a", "no", "?"},
	{"https://example.org/**", "https://user@example.org/a", "no", "?"},
	{"https://example.org/**", "https://example.org\\@evil.test/a", "no", "?"},
	{"https://example.org/**", "https://evil.test\\@example.org/a", "no", "?"},
	{"https://example.org/**", "https://example.org%2eevil.test/a", "no", "?"},
	{"https://example.org/**", "https://example.org%00.evil.test/a", "no", "?"},
	{"https://example.org/**", "https://example.org./a", "no", "?"},
	{"https://example.org/**", "https://example.org:/a", "no", "?"},
	{"https://example.org/**", "https://example.org:0443/a", "no", "?"},
	{"https://example.org/**", "https://example.org /a", "no", "?"},
	{"https://example.org/**", " https://example.org/a", "no", "?"},
	{"https://example.org/**", "https://exаmple.org/a", "no", "?"}, // a Cyrillic letter
	{"https://example.org/**", "https://[::1]/a", "no", "?"},
	{"https://example.org/**", "https:/example.org/a", "no", "?"},
	{"https://example.org/**", "https:example.org/a", "no", "?"},
	{"https://example.org/**", "//example.org/a", "no", "?"},
	{"https://example.org/**", "https:///example.org/a", "no", "?"},
	{"https://example.org/**", "https://", "no", "?"},
	{"https://example.org/**", "example.org/a", "no", "?"},
	{"https://example.org/**", "", "no", "?"},
	{"https://example.org/**", "://example.org/", "no", "?"},
	{"https://example.org/**", "7://example.org/", "no", "?"},
	{"https://example.org/**", "ht-tps://example.org/", "no", "?"},
	{"https://example.org/a/**", "https://example.org/a/b", "yes", "yes"},
	{"https://example.org/a/**", "https://example.org/A/b", "no", "yes"},
	{"https://example.org/a/**", "https://example.org/%61/b", "yes", "yes"},
	{"https://example.org/a/**", "https://example.org/a/%C3%A9", "yes", "yes"},
	{"https://example.org/a/**", "https://example.org/b", "no", "no"},
	{"https://example.org/a/**", "https://example.org/ab", "no", "no"},
	{"https://example.org/a/**", "https://example.org/b?/a/c", "no", "no"},
	{"https://example.org/c/**", "https://example.org/a/../b", "no", "?"},
	{"https://example.org/c/**", "https://example.org/c/./b", "no", "yes"},
	{"https://example.org/c/**", "https://example.org/a/%2e%2E/b", "no", "?"},
	{"https://example.org/c/**", "https://example.org/a/..;x/b", "no", "?"},
	{"https://example.org/c/**", "https://example.org/a/..%3bx/b", "no", "?"},
	{"https://example.org/c/**", "https://example.org/a%2fb", "no", "?"},
	{"https://example.org/c/**", "https://example.org/a%5cb", "no", "?"},
	{"https://example.org/c/**", "https://example.org/a%252e", "no", "?"},
	{"https://example.org/c/**", "https://example.org/a%0ab", "no", "?"},
	{"https://example.org/c/**", "https://example.org/a%7f", "no", "?"},
	{"https://example.org/c/**", "https://example.org/a%zz", "no", "?"},
	{"https://example.org/c/**", "https://example.org/a%", "no", "?"},
	{"https://example.org/c/**", "https://example.org/a%4", "no", "?"},
	{"https://example.org/c/**", "https://example.org/a%ff", "no", "?"},
	{"https://example.org/*", "https://example.org/a", "yes", "yes"},
	{"https://example.org/*", "https://example.org/a/b", "no", "no"},
	{"https://example.org/x", "https://example.org/x", "yes", "yes"},
	{"https://example.org", "https://example.org/", "yes", "yes"},
	{"https://example.org", "https://example.org/x", "no", "no"},
	{"https://*.example.org/**", "https://a.example.org/x", "yes", "yes"},
	{"https://*.example.org/**", "https://a.b.example.org/x", "yes", "yes"},
	{"https://*.example.org/**", "https://example.org/x", "no", "no"},
	{"https://*.example.org/**", "https://evilexample.org/x", "no", "no"},
	{"https://*.example.org/**", "https://a.example.org.evil.test/x", "no", "no"},
	{"https://*.example.org/**", "https://evil.test/.example.org/x", "no", "no"},
	{"https://*.example.org/**", "https://.example.org/x", "no", "yes"},
	{"https://*/**", "https://any.test/x", "yes", "yes"},
	{"https://*/**", "http://any.test/x", "no", "no"},
	{"https://*/**", "https://any.test:8443/x", "no", "yes"},
}

// TestAddresses shows that a URL is compared by what it means: no user, port,
// ending or spelling makes it pass for another.
func TestAddresses(t *testing.T) {
	answers := map[string]tool.Answer{"yes": tool.Refuse, "no": tool.Allow, "?": tool.Ask}
	for _, c := range addressCases {
		args := marshal(map[string]string{"url": c.url})
		rule := Rule{ID: "r", Tool: "Fetch", Decision: tool.Allow, Args: map[string]string{"url": c.pattern}}
		if why := rule.problems(); len(why) > 0 {
			t.Errorf("%s: %v", c.pattern, why)
		}
		v := Judge(Posture{Mode: ModeAsk, Rules: Rules{rule}}, call("Fetch", string(args), "read_only", tool.External))
		if (v.Answer == tool.Allow) != (c.allow == "yes") {
			t.Errorf("allow %s: %q: %+v", c.pattern, c.url, v)
		}
		rule.Decision = tool.Refuse
		v = Judge(Posture{Mode: ModeYolo, Rules: Rules{rule}}, call("Fetch", string(args), "read_only", tool.External))
		if v.Answer != answers[c.deny] {
			t.Errorf("deny %s: %q: %+v, want %s", c.pattern, c.url, v, c.deny)
		}
	}
}

// TestAddressPatterns shows which patterns may allow an address. A rule that
// holds back may be written as loosely as its author likes.
func TestAddressPatterns(t *testing.T) {
	for pattern, good := range map[string]bool{
		"https://example.org/**": true, "https://*.example.org/a/{b,c}/*": true, "https://*/**": true, "http://example.org:8080": true,
		"**": false, "https://**": false, "https://example.org**": false, "https://*example.org/**": false, "https://a.*.org/**": false,
		"https://{a,b}.test/**": false, "https://a.test{/x,.evil/y}": false, "https://u@a.test/**": false, "https://*.*/": false, "https://*./": false,
		"https://a.test/x?y=*": false, "https://a.test/%41": false, `https://a.test/\*`: false, "*://a.test/": false, "https://a.test:*/": false,
		"https://a.test:08/": false, "https:///x": false, "example.org": false, "https://-a.test/": false, "https://a.test/#x": false, "": false,
	} {
		rule := Rule{ID: "r", Tool: "Fetch", Decision: tool.Allow, Args: map[string]string{"page_url": pattern}}
		if got := len(rule.problems()) == 0; got != good {
			t.Errorf("%s: %v", pattern, rule.problems())
		}
		rule.Decision = tool.Refuse
		if why := rule.problems(); len(why) > 0 {
			t.Errorf("deny %s: %v", pattern, why)
		}
	}
	loose := Rules{{ID: "r", Tool: "Fetch", Decision: tool.Refuse, Args: map[string]string{"uri": "**/EVIL"}}}
	for text, want := range map[string]tool.Answer{"https://a.test/evil": tool.Refuse, "https://a.test/b": tool.Allow, "evil": tool.Refuse, "odd": tool.Ask} {
		v := Judge(Posture{Mode: ModeYolo, Rules: loose}, call("Fetch", string(marshal(map[string]string{"uri": text})), "read_only"))
		if v.Answer != want {
			t.Errorf("%s: %+v", text, v)
		}
	}
}

// sameAddress holds what is read here against the standard library, which the
// bundled tool asks.
func sameAddress(t *testing.T, text string) {
	a, ok := readAddress(text)
	if !ok {
		return
	}
	u, err := url.Parse(text)
	if err != nil {
		return // nothing is sent anywhere
	}
	port := u.Port()
	if u.Scheme == "https" && port == "443" || u.Scheme == "http" && port == "80" {
		port = ""
	}
	path := u.Path
	if path == "" {
		path = "/"
	}
	if got := (address{u.Scheme, strings.ToLower(u.Hostname()), port, path}); got != a || u.User != nil || u.Opaque != "" {
		t.Errorf("%q is read as %+v and means %+v", text, a, got)
	}
}

// FuzzAddress shows that no text is taken for another address than it is.
func FuzzAddress(f *testing.F) {
	for _, c := range addressCases {
		f.Add(c.url)
	}
	f.Fuzz(sameAddress)
}
