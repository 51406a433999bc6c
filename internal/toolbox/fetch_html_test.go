package toolbox

import (
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func htmlToText(page string) *pageText {
	h := newPageText(&url.URL{Scheme: "https", Host: "example.org", Path: "/dir/page"})
	h.read(page)
	return h
}

// TestHTML shows what is left of a page.
func TestHTML(t *testing.T) {
	for _, c := range []struct{ name, page, want string }{
		{"words", "a  b\n\tc<b>d</b> e", "a b cd e"},
		{"paragraphs", "<p>one</p>\n<p>two<br>three", "one\n\ntwo\nthree"},
		{"headings", "<h1>Top</h1>text<h3> Sub </h3><h2></h2><p>x", "# Top\n\ntext\n\n### Sub\n\nx"},
		{"lists", "<ul><li>a<li><p>b</p></li><li></li></ul>c", "- a\n\n- b\n\nc"},
		{"table", "<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>", "a | b\n1 | 2"},
		{"pre", "<pre>\n  a\n    b\n</pre>c", "  a\n    b\n\n\nc"},
		{"entities", "a &lt;b&gt; &amp;amp; &#x41; &nbsp;x", "a <b> &amp; A x"},
		{"links", `<a href="/x">abs</a> <a href="y?z=1">rel</a> <a href="#f">here</a> <a href="javascript:x">js</a> <a href="https://u:p@e.org/">user</a> <a href="/e"></a>`, "abs <https://example.org/x> rel <https://example.org/dir/y?z=1> here js user"},
		{"open link", `<a href="/a">one<a href="/b">two</a>`, "one <https://example.org/a>two <https://example.org/b>"},
		{"image", `a<img src=x alt="a cat">b<img src=y>`, "a [image: a cat] b"},
		{"scripts", "a<script>if (1 < 2) { '</b>' }</script><style>p{}</style><!-- note --><noscript>b</noscript><template><p>t</template>c", "abc"},
		{"hidden", `a<div hidden>x<div>y</div>z</div>b<span style="DISPLAY : none">w</span>c<p style="display:none">shown`, "abc\n\nshown"},
		{"svg", "a<svg><text>x</text></svg>b<svg/>c", "abc"},
		{"never closed", "<div><p><b>a", "a"},
		{"no tags", "", ""},
		{"stray ends", "</div></p></pre>a</a></svg>", "a"},
		{"not a tag", "1 < 2 && 3 > 2", "1 < 2 && 3 > 2"},
	} {
		if diff := cmp.Diff(c.want, htmlToText(c.page).String()); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
	if h := htmlToText("<title> a\n<b> &amp; " + strings.Repeat("x", 1000) + "</title>"); !strings.HasPrefix(h.title(), "a <b> & xx") || len(h.title()) > maxTitleBytes || h.Len() != 0 {
		t.Errorf("title %q, text %q", h.title(), h)
	}
}

// TestHTMLBounded shows that links cannot blow a page up.
func TestHTMLBounded(t *testing.T) {
	page := strings.Repeat("<a href='"+strings.Repeat("x", 400)+"'>y</a>", 10_000)
	h := htmlToText(page)
	if h.links != maxPageLinks || h.Len() > maxPageText+maxLinkBytes {
		t.Errorf("%d links, %d bytes", h.links, h.Len())
	}
	if h := htmlToText(strings.Repeat("<p>"+strings.Repeat("x", 1<<10), maxPageText>>10)); !h.cut || h.Len() > maxPageText+2<<10 {
		t.Errorf("cut %v, %d bytes", h.cut, h.Len())
	}
}

// FuzzHTML shows that no page breaks the converter or smuggles in characters
// that nobody sees.
func FuzzHTML(f *testing.F) {
	for _, seed := range []string{"<p>a</p>", "<a href='/x'>b<table><tr><td>c", "<svg><div hidden>", "<title>x", "&#x1b;[0m\u202e", "<pre>\n\n", "\xff<p \xfe>"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, page string) {
		p := &webPage{url: &url.URL{Scheme: "https", Host: "example.org"}}
		if err := p.convert("text/html", []byte(page)); err != nil {
			return
		}
		if !utf8.ValidString(p.text) || !utf8.ValidString(p.title) || strings.ContainsFunc(p.text+p.title, hidden) {
			t.Errorf("%q becomes %q, title %q", page, p.text, p.title)
		}
	})
}
