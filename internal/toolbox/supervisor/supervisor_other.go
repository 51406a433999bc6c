//go:build !linux

package supervisor

import (
	"context"
	"fmt"
	"os"
	"time"
)

// Client refuses everything on this system.
type Client struct{}

// New refuses.
func New(string, Options) (*Client, error) { return nil, ErrUnsupported }

// Find refuses.
func Find(string, string) (*Client, Known, error) { return nil, Known{}, ErrUnsupported }

// Recover refuses.
func Recover(string, string) (Known, error) { return Known{}, ErrUnsupported }

// Forget refuses.
func Forget(string, string) error { return ErrUnsupported }

// Run refuses.
func (*Client) Run(context.Context, Spec, func([]byte)) (Ending, error) {
	return Ending{}, ErrUnsupported
}

// Attach refuses.
func (*Client) Attach(context.Context, string, int64, func([]byte)) (Ending, error) {
	return Ending{}, ErrUnsupported
}

// Cancel refuses.
func (*Client) Cancel(string) error { return ErrUnsupported }

// Collect refuses.
func (*Client) Collect(string) error { return ErrUnsupported }

// Close does nothing.
func (*Client) Close(bool) error { return nil }

// Main refuses.
func Main([]string) int {
	fmt.Fprintln(os.Stderr, "stave:", ErrUnsupported)
	return 1
}

// MainWith refuses.
func MainWith(args []string, _ Confiner, _ Bounder) int { return Main(args) }

// BootTime is unknown here.
func BootTime() (time.Time, error) { return time.Time{}, ErrUnsupported }

// Start is not possible here.
func (*Client) Start() error { return ErrUnsupported }

// List knows none.
func List(string) ([]Known, error) { return nil, nil }

// Vacate has nothing to remove here.
func Vacate(string) {}
