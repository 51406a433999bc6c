package toolbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"golang.org/x/sys/unix"
)

const (
	maxNotes         = 200
	maxNoteLength    = 500 // characters
	maxNotesFile     = 1 << 20
	noteIDLength     = 12
	notesName        = "notes.json"
	notesLock        = "lock"
	privateDirectory = 0o700
)

// Note is one line kept for later conversations.
type Note struct {
	ID   string `json:"id"`
	Text string `json:"text"`
	// Waiting says that no conversation may read the note until a person clears it.
	Waiting bool `json:"waiting,omitempty"`
}

// Notes are the notes of one directory. Any number of processes may use it.
type Notes struct{ dir string }

// NotesIn names the directory of notes; it is made when the first one is kept.
func NotesIn(dir string) Notes { return Notes{dir} }

// List returns all notes, the oldest first, those that wait among them.
func (n Notes) List() ([]Note, error) {
	root, err := os.OpenRoot(n.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("opening the notes: %w", err)
	}
	defer root.Close()
	return readNotes(root)
}

// Append keeps a text and reports whether it is new. A note that is kept already
// stays as it is: saying it again does not clear it.
func (n Notes) Append(text string, waiting bool) (note Note, fresh bool, err error) {
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		return Note{}, false, errors.New("a note needs text")
	case utf8.RuneCountInString(text) > maxNoteLength:
		return Note{}, false, fmt.Errorf("a note has at most %d characters", maxNoteLength)
	case !utf8.ValidString(text) || strings.ContainsFunc(text, unprintable):
		return Note{}, false, errors.New("a note is one line of visible characters")
	}
	note = Note{ID: sum([]byte(text))[:noteIDLength], Text: text, Waiting: waiting}
	err = n.change(func(notes []Note) ([]Note, error) {
		if i := indexNote(notes, note.ID); i >= 0 {
			note = notes[i]
			return notes, nil
		}
		if len(notes) >= maxNotes {
			return nil, fmt.Errorf("%d notes are kept, which is all there is room for; remove some first", len(notes))
		}
		fresh = true
		return append(notes, note), nil
	})
	return note, fresh, err
}

// Remove takes a note away and reports whether it was there.
func (n Notes) Remove(id string) (removed bool, err error) {
	err = n.change(func(notes []Note) ([]Note, error) {
		kept := slices.DeleteFunc(notes, func(note Note) bool { return note.ID == id })
		removed = len(kept) < len(notes)
		return kept, nil
	})
	return removed, err
}

// Clear lets conversations read a note that waited. Only a person may ask for it.
func (n Notes) Clear(id string) error {
	return n.change(func(notes []Note) ([]Note, error) {
		i := indexNote(notes, id)
		if i < 0 {
			return nil, fmt.Errorf("there is no note %q", shorten(id))
		}
		notes[i].Waiting = false
		return notes, nil
	})
}

func indexNote(notes []Note, id string) int {
	return slices.IndexFunc(notes, func(n Note) bool { return n.ID == id })
}

// change rewrites the notes while nobody else does.
func (n Notes) change(edit func([]Note) ([]Note, error)) error {
	if err := os.MkdirAll(n.dir, privateDirectory); err != nil {
		return fmt.Errorf("making the directory of notes: %w", err)
	}
	root, err := os.OpenRoot(n.dir)
	if err != nil {
		return fmt.Errorf("opening the notes: %w", err)
	}
	defer root.Close()
	unlock, err := lockNotes(root)
	if err != nil {
		return fmt.Errorf("locking the notes: %w", err)
	}
	defer unlock()
	notes, err := readNotes(root)
	if err != nil {
		return err
	}
	before := slices.Clone(notes)
	after, err := edit(notes)
	if err != nil || slices.Equal(before, after) {
		return err
	}
	if err := writeNotes(root, after); err != nil {
		return fmt.Errorf("writing the notes: %w", err)
	}
	return nil
}

// lockNotes waits until no other process, nor another call of this one, writes.
func lockNotes(root *os.Root) (unlock func(), err error) {
	f, err := root.OpenFile(notesLock, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, privateMode)
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
		if err != unix.EINTR {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil // closing releases the lock
}

func readNotes(root *os.Root) ([]Note, error) {
	f, _, err := openRegular(root, notesName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("opening the notes: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxNotesFile+1))
	if err != nil {
		return nil, fmt.Errorf("reading the notes: %w", err)
	}
	if len(data) > maxNotesFile {
		return nil, fmt.Errorf("%s has more than %d bytes; shorten it by hand", notesName, maxNotesFile)
	}
	var notes []Note
	if err := jsonv2.Unmarshal(data, &notes, jsonv2.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("%s is damaged, mend it or move it away: %w", notesName, err)
	}
	return notes, nil
}

// writeNotes replaces the file in one step.
func writeNotes(root *os.Root, notes []Note) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(notes); err != nil {
		return err
	}
	// Only the holder of the lock writes it, so what is there was left by a crash.
	const temp = tempPrefix + notesName
	root.Remove(temp)
	f, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, privateMode)
	if err != nil {
		return err
	}
	_, err = f.Write(b.Bytes())
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = root.Rename(temp, notesName)
	}
	if err != nil {
		root.Remove(temp) // the first error is the one to tell
		return err
	}
	return syncDir(root, ".")
}
