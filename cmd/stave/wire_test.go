package main

import (
	"net/http/httptest"

	"github.com/rogpeppe/go-internal/testscript"

	"stave/internal/model/script"
	"stave/internal/model/wire"
)

// serve KEY SCRIPT puts a scripted model on the network, for whoever has the
// key, and says in WIRE where it is.
func serve(ts *testscript.TestScript, _ bool, args []string) {
	p, err := script.Load(ts.MkAbs(args[1]))
	ts.Check(err)
	s := httptest.NewServer(wire.New(p, wire.Options{Key: args[0]}))
	ts.Defer(s.Close)
	ts.Setenv("WIRE", s.URL)
}
