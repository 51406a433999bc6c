package model

// Defaults of Limits, and the most tokens a usage is believed to report.
const (
	MaxResponseBytes  = 8 << 20
	MaxResponseEvents = 1_000_000
	MaxResponseItems  = 4096
	MaxResponseCalls  = 32
	MaxUsageTokens    = 100_000_000
)

// Limits bounds one response; a field that is zero has its default. Limits on
// time belong to whoever owns the stream's context.
type Limits struct {
	Bytes  int // of text, reasoning and calls together
	Events int
	Items  int // finished stretches of text or reasoning
	Calls  int
}

func (l Limits) withDefaults() Limits {
	if l.Bytes == 0 {
		l.Bytes = MaxResponseBytes
	}
	if l.Events == 0 {
		l.Events = MaxResponseEvents
	}
	if l.Items == 0 {
		l.Items = MaxResponseItems
	}
	if l.Calls == 0 {
		l.Calls = MaxResponseCalls
	}
	return l
}

// Delta is what one event adds for those who watch: valid UTF-8 without NUL.
// All Texts together are the Response's Text.
type Delta struct {
	Text      string
	Reasoning string
	ItemDone  bool // an item of the output is finished: a safe boundary
}

// Response is one assembled answer of a model.
type Response struct {
	Parts []Part // text and reasoning, in the order they came
	Text  string // all text parts together
	// Calls are given only by a complete response, in the order they came. Ids may
	// be empty or doubled. Arguments are as the model wrote them, even where they
	// are not UTF-8: a repair would run something the model did not write, so it
	// is left to the check of the arguments to refuse them.
	Calls         []RawCall
	WithheldCalls int // complete calls not given, because the response was cut short
	Usage         Usage
	UsageReported bool // false: Usage says nothing and the caller must estimate
	UsageClamped  bool // the provider reported a count that cannot be
	Repaired      int  // bytes that were no text, each replaced by U+FFFD
	Stop          StopReason
}

func (r Response) withoutCalls() Response {
	r.WithheldCalls += len(r.Calls)
	r.Calls = nil
	return r
}

func textOf(parts []Part) string {
	size := 0
	for _, p := range parts {
		size += len(p.Text)
	}
	text := make([]byte, 0, size)
	for _, p := range parts {
		text = append(text, p.Text...)
	}
	return string(text)
}
