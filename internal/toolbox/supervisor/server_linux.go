package supervisor

import (
	"bufio"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"
)

// firstPatience is how long a supervisor waits for the first client.
const firstPatience = 30 * time.Second

// server is the supervisor's inside.
type server struct {
	dir    string
	linger time.Duration
	home   []byte // the text of ours
	family *family

	mu      sync.Mutex
	tasks   map[string]*task
	clients int
	leaving bool
	leave   chan struct{} // closed when nothing is left to do
	timer   *time.Timer

	running sync.WaitGroup
}

func newServer(dir, socket string, linger time.Duration, confine Confiner) (*server, error) {
	ticks, _, err := processInfo(os.Getpid())
	if err != nil {
		return nil, err
	}
	family, err := newFamily(confine)
	if err != nil {
		return nil, err
	}
	s := &server{
		dir: dir, linger: linger, home: asJSON(home{bootID(), socket, proof{PID: os.Getpid(), Ticks: ticks}}),
		family: family, tasks: map[string]*task{}, leave: make(chan struct{}),
	}
	s.timer = time.AfterFunc(firstPatience, s.expire)
	return s, nil
}

// accept serves clients until the listener is closed.
func (s *server) accept(l *net.UnixListener) {
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			return
		}
		if err := checkPeer(conn); err != nil || !s.enter() {
			conn.Close()
			continue
		}
		go func() {
			defer s.exit()
			defer conn.Close()
			s.serve(conn)
		}()
	}
}

func (s *server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leaving || s.clients >= maxClients {
		return false
	}
	s.clients++
	s.timer.Stop()
	return true
}

func (s *server) exit() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients--
	s.reconsider()
}

// reconsider leaves at once when nobody could miss us, and after the linger
// time when there are results nobody asked for. The caller holds mu.
func (s *server) reconsider() {
	if s.clients > 0 || s.leaving {
		return
	}
	for _, t := range s.tasks {
		if !t.ended() {
			return // its end brings us here again
		}
	}
	if len(s.tasks) == 0 {
		s.goNow()
		return
	}
	s.timer.Reset(s.linger)
}

func (s *server) goNow() {
	if !s.leaving {
		s.leaving = true
		close(s.leave)
	}
}

// expire is the end of all patience, unless something came up meanwhile.
func (s *server) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clients > 0 {
		return
	}
	for _, t := range s.tasks {
		if !t.ended() {
			return
		}
	}
	s.goNow()
}

// serve answers one client, question by question. Whoever breaks the protocol
// is left.
func (s *server) serve(conn net.Conn) {
	in := bufio.NewReaderSize(conn, readChunk)
	var buf []byte
	for {
		kind, body, grown, err := readFrame(in, buf)
		if err != nil {
			return
		}
		buf = grown
		if err := s.answer(conn, kind, body); err != nil {
			return
		}
		if cap(buf) > outputChunk {
			buf = nil // one long question is no reason to stay large
		}
	}
}

// answer handles one question; an error ends the conversation.
func (s *server) answer(conn net.Conn, kind byte, body []byte) error {
	if kind == askStart {
		spec, err := readSpec(body)
		if err != nil {
			return err
		}
		t, err := s.start(spec)
		if err != nil {
			return writeFrame(conn, sayError, refuse(err).text())
		}
		return t.stream(conn, 0)
	}
	if kind == askStop {
		s.stopAll()
		return writeFrame(conn, sayOK, nil)
	}
	var q about
	if err := json.Unmarshal(body, &q); err != nil {
		return err
	}
	t := s.find(q.ID)
	if t == nil {
		return writeFrame(conn, sayError, refuse(fmt.Errorf("%w: %s", ErrUnknown, q.ID)).text())
	}
	switch kind {
	case askAttach:
		if q.From < 0 {
			return errFrame
		}
		return t.stream(conn, q.From)
	case askCancel:
		t.cancel()
		return writeFrame(conn, sayOK, nil)
	case askCollect:
		if err := s.collect(t); err != nil {
			return writeFrame(conn, sayError, refuse(err).text())
		}
		return writeFrame(conn, sayOK, nil)
	}
	return errFrame
}

// collectAll forgets commands beside other work. One that cannot be forgotten yet
// stays until somebody asks again, or until we leave.
func (s *server) collectAll(ids []string) {
	for _, id := range ids {
		if t := s.find(id); t != nil {
			_ = s.collect(t)
		}
	}
}

func (s *server) find(id string) *task {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tasks[id]
}

// start begins a command, or returns the one that has this id already.
func (s *server) start(spec Spec) (*task, error) {
	if err := spec.check(); err != nil {
		return nil, err
	}
	t, fresh, err := s.reserve(spec.ID)
	if err != nil || !fresh {
		return t, err
	}
	mark := markName + "=" + rand.Text()
	record, err := t.record.begin(intent{ID: spec.ID, Mark: mark, Began: time.Now()}, s.home)
	if err != nil {
		t.abandon(err)
		s.mu.Lock()
		delete(s.tasks, spec.ID)
		s.mu.Unlock()
		s.running.Done()
		return nil, err
	}
	go func() {
		defer s.running.Done()
		t.run(spec, mark, record, s.family, func() { s.collectAll(spec.Collect) })
		s.mu.Lock()
		defer s.mu.Unlock()
		s.reconsider()
	}()
	return t, nil
}

// reserve gives an id to one task for ever, before anything slow is done for it.
func (s *server) reserve(id string) (t *task, fresh bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.tasks[id]; t != nil {
		return t, false, nil
	}
	if s.leaving || len(s.tasks) >= maxCommands {
		return nil, false, fmt.Errorf("the supervisor takes no command: it is leaving or has %d", len(s.tasks))
	}
	id = strings.Clone(id) // else it holds all of its question
	t = newTask(id, recordOf(s.dir, id))
	s.tasks[id] = t
	s.running.Add(1)
	return t, true, nil
}

// collect forgets a command whose ending is durable elsewhere.
func (s *server) collect(t *task) error {
	if !t.ended() {
		return fmt.Errorf("%s is still running; cancel it first", t.id)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tasks[t.id] != t {
		return nil // somebody was faster
	}
	if err := t.record.forget(t.wrote()); err != nil {
		return fmt.Errorf("forgetting %s: %w", t.id, err)
	}
	t.close()
	delete(s.tasks, t.id)
	return nil
}

// stopAll ends every command and takes no more.
func (s *server) stopAll() {
	s.mu.Lock()
	s.leaving = true
	for _, t := range s.tasks {
		t.cancel()
	}
	s.mu.Unlock()
	s.running.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.leave:
	default:
		close(s.leave)
	}
}
