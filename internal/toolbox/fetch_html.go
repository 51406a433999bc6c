package toolbox

import (
	"net/url"
	"strings"
	"unicode"

	"golang.org/x/net/html"
)

const (
	maxPageText   = 8 << 20
	maxPageLinks  = 5000
	maxLinkBytes  = 500
	maxTitleBytes = 300
)

// pageText makes readable text of HTML in one pass over its tags: no tree is
// built, so neither nesting nor bad nesting costs anything.
type pageText struct {
	strings.Builder
	base *url.URL
	cut  bool

	breaks int    // line breaks owed before the next text
	space  bool   // a space is owed
	mark   string // what a heading, list item or cell starts with
	pre    int    // inside so many pre elements
	cells  int    // of the current table row

	skip      string // the element whose content is left out
	skipDepth int

	inTitle bool
	heading strings.Builder

	href   string
	hrefAt int // where its text starts
	links  int
}

func newPageText(base *url.URL) *pageText { return &pageText{base: base} }

func (h *pageText) title() string { return strings.Join(strings.Fields(h.heading.String()), " ") }

func (h *pageText) read(page string) {
	z := html.NewTokenizer(strings.NewReader(page))
	for h.Len() <= maxPageText {
		switch z.Next() {
		case html.ErrorToken: // the end; a page in memory has no other error
			return
		case html.TextToken:
			h.content(string(z.Text()))
		case html.StartTagToken, html.SelfClosingTagToken:
			h.start(z.Token())
		case html.EndTagToken:
			name, _ := z.TagName()
			h.end(string(name))
		}
	}
	h.cut = true
}

func (h *pageText) start(t html.Token) {
	if h.skip != "" {
		if t.Data == h.skip && t.Type == html.StartTagToken {
			h.skipDepth++
		}
		return
	}
	if unseen(t) {
		h.skip, h.skipDepth = t.Data, 1
		return
	}
	h.separate(t.Data)
	switch t.Data {
	case "title":
		h.inTitle = true
	case "pre":
		h.pre++
	case "h1", "h2", "h3", "h4", "h5", "h6":
		h.mark = strings.Repeat("#", int(t.Data[1]-'0')) + " "
	case "li":
		h.mark = "- "
	case "tr":
		h.cells = 0
	case "td", "th":
		if h.cells++; h.cells > 1 {
			h.space, h.mark = true, "| "
		}
	case "img":
		if alt := strings.TrimSpace(attribute(t, "alt")); alt != "" {
			h.content(" [image: " + alt + "] ")
		}
	case "a":
		h.endLink()
		h.href, h.hrefAt = h.resolve(attribute(t, "href")), h.Len()
	}
}

func (h *pageText) end(name string) {
	if h.skip != "" {
		if name == h.skip {
			if h.skipDepth--; h.skipDepth == 0 {
				h.skip = ""
			}
		}
		return
	}
	switch name {
	case "title":
		h.inTitle = false
	case "pre":
		h.pre = max(0, h.pre-1)
	case "a":
		h.endLink()
	case "li", "tr", "h1", "h2", "h3", "h4", "h5", "h6":
		h.mark = "" // still there if it had no text
	}
	h.separate(name)
}

// separate owes the line breaks that stand around an element.
func (h *pageText) separate(name string) {
	switch name {
	case "p", "pre", "blockquote", "table", "ul", "ol", "dl", "h1", "h2", "h3", "h4", "h5", "h6", "article", "section", "main", "hr":
		h.breaks = max(h.breaks, 2)
	case "div", "li", "tr", "dt", "dd", "header", "footer", "nav", "aside", "form", "figure", "figcaption", "option", "summary", "details", "address", "caption":
		h.breaks = max(h.breaks, 1)
	case "br":
		h.breaks++
	}
}

func (h *pageText) content(text string) {
	switch {
	case h.skip != "":
	case h.inTitle:
		h.heading.WriteString(text[:min(len(text), max(0, maxTitleBytes-h.heading.Len()))])
	case h.pre > 0:
		if text = strings.TrimPrefix(text, "\n"); text != "" {
			h.settle()
			h.WriteString(text)
		}
	default:
		h.flow(text)
	}
}

// flow writes text whose white space means no more than one space.
func (h *pageText) flow(text string) {
	h.space = h.space || strings.TrimLeftFunc(text, unicode.IsSpace) != text
	for word := range strings.FieldsSeq(text) {
		h.settle()
		h.WriteString(word)
		h.space = true
	}
	h.space = h.space && strings.TrimRightFunc(text, unicode.IsSpace) != text
}

// settle writes what is owed before the next text.
func (h *pageText) settle() {
	switch {
	case h.Len() == 0:
	case h.breaks > 0:
		h.WriteString("\n\n"[:min(h.breaks, 2)])
	case h.space:
		h.WriteByte(' ')
	}
	h.WriteString(h.mark)
	h.breaks, h.space, h.mark = 0, false, ""
}

// endLink writes where a link leads, if it had any text.
func (h *pageText) endLink() {
	if h.href != "" && h.Len() > h.hrefAt {
		h.WriteString(" <" + h.href + ">")
		h.links++
	}
	h.href = ""
}

// resolve makes a link absolute; those that lead nowhere else are dropped.
func (h *pageText) resolve(href string) string {
	if href == "" || href[0] == '#' || len(href) > maxLinkBytes || h.links >= maxPageLinks {
		return ""
	}
	ref, err := url.Parse(strings.TrimSpace(href))
	if err != nil {
		return ""
	}
	to := h.base.ResolveReference(ref)
	if to.Scheme != "http" && to.Scheme != "https" || to.User != nil {
		return ""
	}
	if full := to.String(); len(full) <= maxLinkBytes {
		return full
	}
	return ""
}

// unseen says whether a browser would not show what is inside an element. One
// that may lack its end tag is not left out, for that could take the whole page.
func unseen(t html.Token) bool {
	switch t.Data {
	case "script", "style", "template", "iframe", "object", "noembed", "noframes", "textarea", "select":
		return true
	case "svg", "math":
		return t.Type == html.StartTagToken
	case "div", "span", "section", "article", "aside", "nav", "header", "footer", "a", "b", "i", "em", "strong", "font", "table", "ul", "ol", "form", "pre",
		"blockquote", "label", "figure", "details", "dialog", "h1", "h2", "h3", "h4", "h5", "h6":
	default:
		return false
	}
	for _, a := range t.Attr {
		switch a.Key {
		case "hidden":
			return true
		case "style":
			style := strings.ToLower(strings.Join(strings.Fields(a.Val), ""))
			if strings.Contains(style, "display:none") || strings.Contains(style, "visibility:hidden") {
				return true
			}
		}
	}
	return false
}

func attribute(t html.Token, name string) string {
	for _, a := range t.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}
