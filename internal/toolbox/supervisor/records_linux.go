package supervisor

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// maxRecord bounds a record that is read back.
const maxRecord = 1 << 20

// intent is the first line of a start record: durable before the command may
// run, so that no id is ever started twice.
type intent struct {
	ID    string    `json:"id"`
	Mark  string    `json:"mark"`
	Began time.Time `json:"began"`
	home
}

// home is where a command is watched over.
type home struct {
	Boot       string `json:"boot"`
	Socket     string `json:"socket"`
	Supervisor proof  `json:"supervisor"`
}

// line is the intent as a line of JSON. The home's text is always the same, and
// only an id could need escapes.
func (i intent) line(home []byte) []byte {
	b := append([]byte(`{"id":`), asJSON(i.ID)...)
	b = append(append(b, `,"mark":"`...), i.Mark...)
	b = i.Began.AppendFormat(append(b, `","began":"`...), time.RFC3339Nano)
	b = append(append(b, `",`...), home[1:]...) // it goes on behind its brace
	return append(b, '\n')
}

// proof names a process so that another with the same number is told apart.
type proof struct {
	PID   int    `json:"pid"`
	Ticks uint64 `json:"ticks"`           // when it was started, or just before
	Until uint64 `json:"until,omitempty"` // just after that, where the moment is not known
}

// closing is the last line of a start record.
type closing struct {
	End *Ending `json:"end"`
}

const startSuffix = ".start"

// record is where the files of one command are.
type record struct{ base string }

func recordOf(dir, id string) record {
	sum := sha256.Sum256([]byte(id))
	return record{filepath.Join(dir, hex.EncodeToString(sum[:16]))}
}

func (r record) start() string  { return r.base + startSuffix }
func (r record) output() string { return r.base + ".out" }

// begin makes the record. It is not synced: it is for the death of processes,
// which loses no write. After a power cut nothing that was started before runs any
// more, and BootTime tells what was.
func (r record) begin(i intent, home []byte) (*os.File, error) {
	f, err := create(r.start(), os.O_EXCL)
	if errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("%w: %s", ErrStarted, i.ID)
	}
	if err != nil {
		return nil, fmt.Errorf("recording the start of %s: %w", i.ID, err)
	}
	if _, err := f.Write(i.line(home)); err != nil {
		f.Close()
		os.Remove(r.start()) // nothing was started
		return nil, fmt.Errorf("recording the start of %s: %w", i.ID, err)
	}
	return f, nil
}

// create makes a file. Package os would ask whether it can be waited for, with
// more calls of the system than all else takes; a file on disk never can.
func create(path string, flags int) (*os.File, error) {
	for {
		fd, err := unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC|flags, 0o600)
		switch err {
		case nil:
			return os.NewFile(uintptr(fd), path), nil
		case unix.EINTR:
		default:
			return nil, &os.PathError{Op: "open", Path: path, Err: err}
		}
	}
}

// finish adds the ending. A line that was torn makes the end unknown, never wrong.
func finish(start *os.File, ending []byte) error {
	line := make([]byte, 0, len(ending)+16)
	line = append(append(append(line, `{"end":`...), ending...), "}\n"...)
	_, err := start.Write(line)
	return err
}

func addLine(f *os.File, v any) error {
	line, err := json.Marshal(v)
	if err == nil {
		_, err = f.Write(append(line, '\n'))
	}
	return err
}

// forget removes the files, the record last: while it is there the id cannot be
// started again.
func (r record) forget(wrote bool) error {
	paths := []string{r.output(), r.start()}
	if !wrote {
		paths = paths[1:]
	}
	var errs []error
	for _, path := range paths {
		// Not os.Remove, which tries twice when there was no output to keep.
		if err := syscall.Unlink(path); err != nil && err != syscall.ENOENT {
			errs = append(errs, &os.PathError{Op: "unlink", Path: path, Err: err})
		}
	}
	return errors.Join(errs...)
}

// BootTime is when this machine was started. A command that is absent was never
// begun, unless that was before.
func BootTime() (time.Time, error) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return time.Time{}, err
	}
	_, after, _ := bytes.Cut(b, []byte("\nbtime "))
	line, _, _ := bytes.Cut(after, []byte("\n"))
	seconds, err := strconv.ParseInt(string(line), 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("reading when this machine was started: %w", err)
	}
	return time.Unix(seconds, 0), nil
}

// Recover says what the files in dir tell about a command, whether or not its
// supervisor lives.
func Recover(dir, id string) (Known, error) {
	known, _, err := recoverRecord(dir, id)
	return known, err
}

func recoverRecord(dir, id string) (Known, intent, error) {
	r, known := recordOf(dir, id), Known{ID: id, State: Absent}
	if err := checkID(id); err != nil {
		return known, intent{}, err
	}
	data, err := readRecord(r.start())
	if errors.Is(err, os.ErrNotExist) {
		return known, intent{}, nil
	}
	if err != nil {
		return known, intent{}, fmt.Errorf("reading what is known of %s: %w", id, err)
	}
	known.Output = r.output()
	if info, err := os.Stat(known.Output); err == nil {
		known.OutputBytes = info.Size()
	}
	first, rest, _ := bytes.Cut(data, []byte("\n"))
	leader, end := readRest(rest)
	var begun intent
	if err := json.Unmarshal(first, &begun); err != nil || begun.ID != id {
		known.State = Unclear // it died while it wrote this, before the start
		return known, intent{}, nil
	}
	known.Began = begun.Began
	sameBoot := begun.Boot == bootID()
	known.Supervised = sameBoot && begun.Supervisor.alive()
	if end != nil {
		end.Output = known.Output
		known.State, known.Ending = Ended, *end
		return known, begun, nil
	}
	known.State, known.PID = judge(begun, leader, sameBoot, known.Supervised)
	return known, begun, nil
}

// readRest reads the lines behind the intent: the process, if it was noted, and
// the end, if there was one.
func readRest(rest []byte) (leader proof, end *Ending) {
	for {
		line, others, whole := bytes.Cut(rest, []byte("\n"))
		if !whole {
			return leader, end
		}
		var p proof
		var c closing
		if json.Unmarshal(line, &p) == nil && p.PID > 0 {
			leader = p
		}
		if json.Unmarshal(line, &c) == nil && c.End != nil {
			end = c.End
		}
		rest = others
	}
}

// judge decides about a command without an ending.
func judge(begun intent, leader proof, sameBoot, supervised bool) (State, int) {
	noted := leader.PID > 0
	switch {
	case sameBoot && noted && leader.alive():
		return Running, leader.PID
	case supervised:
		return Running, 0 // it is about to note a start or an end
	case sameBoot && len(marked(begun.Mark)) > 0:
		return Running, 0
	case noted:
		return Lost, 0
	}
	return Unclear, 0
}

// List says what the files in dir tell about all commands there are. A record that
// breaks off before its id names none.
func List(dir string) ([]Known, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*"+startSuffix))
	if err != nil {
		return nil, err
	}
	var all []Known
	for _, name := range names {
		data, err := readRecord(name)
		if err != nil {
			continue // forgotten meanwhile
		}
		first, _, _ := bytes.Cut(data, []byte("\n"))
		var begun intent
		if json.Unmarshal(first, &begun) != nil || recordOf(dir, begun.ID).start() != name {
			continue
		}
		if known, err := Recover(dir, begun.ID); err == nil && known.State != Absent {
			all = append(all, known)
		}
	}
	return all, nil
}

// Forget removes what is known of a command that no supervisor looks after.
func Forget(dir, id string) error {
	known, err := Recover(dir, id)
	if err != nil {
		return err
	}
	if known.Supervised && known.State == Running {
		return fmt.Errorf("%s is still running; cancel it first", id)
	}
	return recordOf(dir, id).forget(true)
}

func readRecord(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxRecord))
}

func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(id))
}

// processInfo says when a process was started and whether it is more than a
// zombie.
func processInfo(pid int) (ticks uint64, living bool, err error) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, false, err
	}
	// The name, in parentheses, may contain anything; behind it come numbers.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	const stateField, ticksField = 0, 19
	if len(fields) <= ticksField {
		return 0, false, fmt.Errorf("process %d has no start time", pid)
	}
	ticks, err = strconv.ParseUint(fields[ticksField], 10, 64)
	return ticks, fields[stateField] != "Z" && fields[stateField] != "X", err
}

func (p proof) alive() bool {
	ticks, living, err := processInfo(p.PID)
	return err == nil && living && p.Ticks <= ticks && ticks <= max(p.Ticks, p.Until)
}

// ticksNow is the time in which the kernel tells when a process was started.
func ticksNow() uint64 {
	const perSecond = 100 // on all systems of ours, whatever the kernel counts in
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return 0
	}
	return uint64(t.Nano()) / (uint64(time.Second) / perSecond)
}
