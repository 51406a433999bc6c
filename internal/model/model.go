// Package model is the vocabulary for talking to language models: messages,
// requests, stream events, and the Provider port.
package model

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"time"
)

// Role says whose message it is.
type Role string

// Roles. Tool results travel in a message of role RoleTool.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

// Part is one piece of a message; exactly one field is set.
type Part struct {
	Text      string      `json:"text,omitzero"`
	Image     *Image      `json:"image,omitzero"`
	Reasoning *Reasoning  `json:"reasoning,omitzero"`
	Call      *ToolCall   `json:"call,omitzero"`
	Result    *ToolResult `json:"result,omitzero"`
}

// Image is a picture for the model to look at.
type Image struct {
	MediaType string `json:"media_type"` // image/png, image/jpeg, image/gif, image/webp
	Data      []byte `json:"data"`
}

// Reasoning is a model's thinking, replayed unchanged where an API demands it.
// Only the kind of provider it came from can read it: to any other it is not sent.
type Reasoning struct {
	ID       string `json:"id,omitzero"` // the provider's own
	Text     string `json:"text,omitzero"`
	Opaque   string `json:"opaque,omitzero"`   // signature or encrypted content
	Redacted bool   `json:"redacted,omitzero"` // there is no text, only Opaque
	Origin   string `json:"origin,omitzero"`   // the kind of provider
}

// ToolCall is a call the model made. ID is ours, unique in the conversation.
type ToolCall struct {
	ID     string          `json:"id"`
	Name   string          `json:"name"`
	Args   json.RawMessage `json:"args"`
	Opaque string          `json:"opaque,omitzero"` // replayed unchanged to where it came from
	Origin string          `json:"origin,omitzero"` // the kind of provider Opaque came from
}

// ToolResult answers the call of the same ID.
type ToolResult struct {
	ID      string  `json:"id"`
	Text    string  `json:"text"`
	IsError bool    `json:"is_error,omitzero"`
	Images  []Image `json:"images,omitzero"`
}

// Message is one entry of a transcript.
type Message struct {
	Role  Role   `json:"role"`
	Parts []Part `json:"parts"`
}

// ToolSpec describes a tool to the model.
type ToolSpec struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"`
}

// Request is everything one model call needs.
type Request struct {
	Model    string
	System   string
	Messages []Message
	Tools    []ToolSpec
	Attempt  int // 1 for the first try of this request

	MaxTokens int64         // most tokens of the answer; 0 leaves it to the provider
	Effort    string        // of thinking: low, medium, high; empty leaves it to the provider
	Output    *OutputSchema // the answer must be JSON of this shape; nil for text
	CacheKey  string        // the same for requests that share their beginning
	Priority  int           // in the queue of calls: lower first; 0 is the usual 100
}

// OutputSchema asks for an answer that is JSON.
type OutputSchema struct {
	Name   string          `json:"name"`
	Schema json.RawMessage `json:"schema"`
}

// Usage is what a call consumed.
type Usage struct {
	InputTokens      int64 `json:"input_tokens"`                // all of the prompt, from a cache or not
	OutputTokens     int64 `json:"output_tokens"`               // all of the answer, thinking included
	CachedTokens     int64 `json:"cached_tokens,omitzero"`      // of the input: read from a cache
	CacheWriteTokens int64 `json:"cache_write_tokens,omitzero"` // of the input: written to a cache
	ReasoningTokens  int64 `json:"reasoning_tokens,omitzero"`   // of the output: thinking
}

// Plus adds two usages.
func (u Usage) Plus(v Usage) Usage {
	return Usage{
		u.InputTokens + v.InputTokens, u.OutputTokens + v.OutputTokens, u.CachedTokens + v.CachedTokens,
		u.CacheWriteTokens + v.CacheWriteTokens, u.ReasoningTokens + v.ReasoningTokens,
	}
}

// StopReason says why the model stopped.
type StopReason string

// Stop reasons.
const (
	StopEnd       StopReason = "end"
	StopToolCalls StopReason = "tool_calls"
	StopLength    StopReason = "length"
	StopRefusal   StopReason = "refusal"
)

// Event is one item of a stream; exactly one field is set.
type Event struct {
	Text      string     // a fragment of the answer
	Reasoning *Reasoning // a fragment of thinking, or its opaque end
	ItemDone  bool       // the current text or reasoning item is finished: a safe boundary
	Call      *RawCall   // a complete tool call as the provider sent it
	Usage     *Usage     // may come more than once; the last wins
	Done      StopReason // the response is complete; nothing follows
}

// RawCall is a tool call as it came over the wire: its id may be empty or
// doubled and its arguments may be anything.
type RawCall struct {
	ID     string
	Name   string
	Args   string
	Opaque string // to be replayed unchanged, with Origin saying to whom
	Origin string
}

// Provider is the port to one kind of model service.
type Provider interface {
	// Stream makes one attempt at one call. It yields events until Done, or one
	// error (as *Error where the cause is known), and stops at once when ctx ends.
	Stream(ctx context.Context, r Request) iter.Seq2[Event, error]
}

// ErrorKind sorts provider failures.
type ErrorKind string

// Error kinds.
const (
	ErrStream      ErrorKind = "stream"       // cut or malformed stream
	ErrRateLimited ErrorKind = "rate_limited" // try later
	ErrOverloaded  ErrorKind = "overloaded"
	ErrTimeout     ErrorKind = "timeout"
	ErrAuth        ErrorKind = "auth"
	ErrBadRequest  ErrorKind = "bad_request"
	ErrTooLong     ErrorKind = "too_long" // the request does not fit the model's window
	ErrQuota       ErrorKind = "quota"    // the account is used up: waiting does not help
	ErrUnreachable ErrorKind = "unreachable"
	ErrLimit       ErrorKind = "limit" // one of our own caps was hit
	ErrInternal    ErrorKind = "internal"
)

// Error is a provider failure with what a caller needs to decide about a retry.
type Error struct {
	Kind       ErrorKind
	Message    string
	Retryable  bool
	RetryAfter time.Duration
}

func (e *Error) Error() string { return fmt.Sprintf("model: %s: %s", e.Kind, e.Message) }

// Transient says whether a failure of this kind usually passes, so that trying
// again is worth it.
func (k ErrorKind) Transient() bool {
	switch k {
	case ErrStream, ErrRateLimited, ErrOverloaded, ErrTimeout, ErrUnreachable:
		return true
	case ErrAuth, ErrBadRequest, ErrTooLong, ErrQuota, ErrLimit, ErrInternal:
	}
	return false
}
