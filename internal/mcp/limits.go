package mcp

import "time"

// Limits bound what servers may cost. A zero field means its default.
type Limits struct {
	MessageBytes     int           // one message from a server
	Tools            int           // tools of one server; the rest is refused
	Prompts          int           // prompts of one server
	Resources        int           // resources of one server, templates included
	DescriptionRunes int           // text about a tool, prompt or resource
	SchemaBytes      int           // the schema of one tool
	ResultBytes      int           // text of one result that is given to the model
	StderrBytes      int           // the end of a server's standard error that is kept
	Start            time.Duration // from starting a server to having its lists
	Call             time.Duration // one call, unless the server's configuration says otherwise
	Grace            time.Duration // each step of ending a server: asked, told, killed
	Relist           time.Duration // the least time between two readings of a server's lists
	BackoffFirst     time.Duration // before the first reconnection
	BackoffMost      time.Duration // before any later one
}

func (l Limits) orDefaults() Limits {
	setInt := func(field *int, value int) {
		if *field <= 0 {
			*field = value
		}
	}
	setTime := func(field *time.Duration, value time.Duration) {
		if *field <= 0 {
			*field = value
		}
	}
	setInt(&l.MessageBytes, 8<<20)
	setInt(&l.Tools, 256)
	setInt(&l.Prompts, 256)
	setInt(&l.Resources, 1024)
	setInt(&l.DescriptionRunes, 4096)
	setInt(&l.SchemaBytes, 64<<10)
	setInt(&l.ResultBytes, 64<<10)
	setInt(&l.StderrBytes, 8<<10)
	setTime(&l.Start, 30*time.Second)
	setTime(&l.Call, 2*time.Minute)
	setTime(&l.Grace, 2*time.Second)
	setTime(&l.Relist, time.Second)
	setTime(&l.BackoffFirst, 500*time.Millisecond)
	setTime(&l.BackoffMost, time.Minute)
	return l
}

const (
	// maxPages bounds how often a server may say that its list goes on.
	maxPages = 64
	// maxServerRequests is how many requests of a server may wait for our answer.
	maxServerRequests = 32
	// maxNotices is how many notifications of one kind may wait to be handled.
	maxNotices = 16
	// maxDepth is how deep the JSON of a server may nest.
	maxDepth = 128
	// maxMetaBytes bounds structured content that is kept beside the text.
	maxMetaBytes = 16 << 10
	// steadyAfter is how long a connection must have lived for its loss to count
	// as a new one.
	steadyAfter = time.Minute
)
