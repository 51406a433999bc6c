package toolbox

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// nameServer answers look-ups from a function, over a pipe and no network.
type nameServer struct {
	t      *testing.T
	lookup func(name string, count int) []string

	mu    sync.Mutex
	asked map[string]int // look-ups of IPv4 addresses by name
}

func resolverFor(t *testing.T, lookup func(name string, count int) []string) *net.Resolver {
	s := &nameServer{t: t, lookup: lookup, asked: map[string]int{}}
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go s.serve(theirs)
		return ours, nil
	}}
}

func (s *nameServer) serve(conn net.Conn) {
	defer conn.Close()
	for {
		var size [2]byte
		if _, err := io.ReadFull(conn, size[:]); err != nil {
			return
		}
		query := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(conn, query); err != nil {
			return
		}
		answer, err := s.answer(query)
		if err != nil {
			s.t.Errorf("answering a look-up: %v", err)
			return
		}
		if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...)); err != nil {
			return
		}
	}
}

func (s *nameServer) answer(query []byte) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(query); err != nil {
		return nil, err
	}
	q := m.Questions[0]
	name := strings.TrimSuffix(q.Name.String(), ".")
	s.mu.Lock()
	if q.Type == dnsmessage.TypeA {
		s.asked[name]++
	}
	count := max(1, s.asked[name])
	s.mu.Unlock()
	reply := dnsmessage.Message{Header: dnsmessage.Header{ID: m.ID, Response: true, RecursionAvailable: true}, Questions: m.Questions}
	addresses := s.lookup(name, count)
	if len(addresses) == 0 {
		reply.RCode = dnsmessage.RCodeNameError
	}
	for _, text := range addresses {
		a := netip.MustParseAddr(text)
		header := dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET}
		switch {
		case a.Is4() && q.Type == dnsmessage.TypeA:
			reply.Answers = append(reply.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: a.As4()}})
		case a.Is6() && q.Type == dnsmessage.TypeAAAA:
			reply.Answers = append(reply.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AAAAResource{AAAA: a.As16()}})
		}
	}
	return reply.Pack()
}

// here is where test servers listen; the fetchers of tests may go there and to
// no other closed address.
var here = netip.MustParseAddr("127.0.0.1")

// site runs a server that web.test leads to and returns a fetcher for it with
// the URL of its top.
func site(t *testing.T, handler http.HandlerFunc) (fetcher, string) {
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return fetcher{
		permit: func(a netip.Addr) bool { return a == here },
		resolver: resolverFor(t, func(name string, _ int) []string {
			if hasDomain(name, "web.test") {
				return []string{here.String()}
			}
			return nil
		}),
	}, "http://web.test:" + u.Port()
}
