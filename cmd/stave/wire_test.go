package main

import (
	"net/http/httptest"
	"time"

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
	ts.Defer(func() {
		s.CloseClientConnections() // or it waits for a model that is silent
		s.Close()
	})
	ts.Setenv("WIRE", s.URL)
}

// awaitCall waits until the process at work has a model call under way.
func awaitCall(ts *testscript.TestScript, _ bool, _ []string) {
	const patience, poll = 10 * time.Second, 5 * time.Millisecond
	for waited := time.Duration(0); ; waited += poll {
		answer, err := askQueue(ts.Getenv("STAVE_HOME"), queueQuestion{})
		if err == nil && len(answer.Calls) > 0 {
			return
		}
		if waited > patience {
			ts.Fatalf("no model call is under way: %v", err)
		}
		time.Sleep(poll)
	}
}
