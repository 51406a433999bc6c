package supervisor

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestParentKilled shows the reason for all this: a killed Stave takes nothing
// with it, and the next one gets every byte once and the ending.
func TestParentKilled(t *testing.T) {
	dir, files := filepath.Join(t.TempDir(), "sup"), t.TempDir()
	gate := fifo(t, files, "gate")
	victim := exec.Command(os.Args[0], roleClient, dir, "call_1", "for i in $(seq 1000); do echo line $i; done; read x <"+gate+"; echo more; exit 9")
	pipe, err := victim.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	var heard strings.Builder
	in := bufio.NewReader(pipe)
	for !strings.HasSuffix(heard.String(), "line 500\n") {
		line, err := in.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		heard.WriteString(line)
	}
	if err := victim.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	victim.Wait() // killed
	c, known, err := Find(dir, "call_1")
	if err != nil || c == nil || known.State != Running || known.PID == 0 {
		t.Fatalf("found %+v, %v", known, err)
	}
	defer c.Close(true)
	open(t, gate)
	end, err := c.Attach(context.Background(), "call_1", int64(heard.Len()), func(b []byte) { heard.Write(b) })
	if err != nil || end.Code != 9 {
		t.Errorf("ending %+v, %v", end, err)
	}
	var want strings.Builder
	for i := range 1000 {
		want.WriteString("line " + strconv.Itoa(i+1) + "\n")
	}
	want.WriteString("more\n")
	if heard.String() != want.String() {
		t.Errorf("heard %d bytes of %d", heard.Len(), want.Len())
	}
	again, err := c.Attach(context.Background(), "call_1", end.OutputBytes, func([]byte) { t.Error("output came twice") })
	if err != nil || again.Code != 9 {
		t.Errorf("asked again: %+v, %v", again, err)
	}
}

// TestSupervisorKilled shows that the files say the truth when the supervisor
// itself is killed, and that the client starts another.
func TestSupervisorKilled(t *testing.T) {
	c, files := newClient(t), t.TempDir()
	gate := fifo(t, files, "gate")
	killed := make(chan struct{})
	pid := 0
	_, err := c.Run(context.Background(), shell("a", files, "echo begun; read x <gate; exit 0"), func([]byte) {
		pid = supervisorPID(t, c.dir, "a")
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
		close(killed)
	})
	<-killed
	if !errors.Is(err, ErrLost) {
		t.Errorf("error %v", err)
	}
	eventually(t, "the supervisor's death", func() bool {
		known, err := Recover(c.dir, "a")
		return err == nil && !known.Supervised && syscall.Kill(pid, 0) == syscall.ESRCH // with its socket
	})
	known, err := Recover(c.dir, "a")
	if err != nil || known.State != Running || known.PID == 0 || known.OutputBytes != 6 {
		t.Errorf("while the command lives: %+v, %v", known, err)
	}
	open(t, gate)
	eventually(t, "the command's end", func() bool {
		known, err = Recover(c.dir, "a")
		return err == nil && known.State == Lost
	})
	if text, err := os.ReadFile(known.Output); err != nil || string(text) != "begun\n" {
		t.Errorf("kept %q, %v", text, err)
	}
	if found, _, err := Find(c.dir, "a"); err != nil || found != nil {
		t.Errorf("found a supervisor: %v, %v", found, err)
	}
	if out, _ := mustRun(t, c, shell("b", "/", "echo next")); out != "next\n" {
		t.Errorf("the next supervisor gave %q", out)
	}
	if _, err := c.Run(context.Background(), shell("a", files, "echo again >twice"), nil); !errors.Is(err, ErrStarted) {
		t.Errorf("a second start: %v", err)
	}
	if _, err := os.Stat(filepath.Join(files, "twice")); err == nil {
		t.Error("the command ran twice")
	}
	if err := Forget(c.dir, "a"); err != nil {
		t.Error(err)
	}
	if known, err := Recover(c.dir, "a"); err != nil || known.State != Absent {
		t.Errorf("after forgetting: %+v, %v", known, err)
	}
}

// TestUnclear shows what is said of commands whose records break off.
func TestUnclear(t *testing.T) {
	dead := proof{PID: 1 << 22, Ticks: 1}
	line := func(v any) string {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(data) + "\n"
	}
	begun := intent{ID: "a", Mark: markName + "=nobody", home: home{Boot: bootID(), Supervisor: dead}}
	earlier := begun
	earlier.Boot = "another"
	for _, k := range []struct {
		name, start string
		want        State
	}{
		{"nothing", "", Absent},
		{"torn intent", `{"id":"a"`, Unclear},
		{"intent only", line(begun), Unclear},
		{"torn note", line(begun) + `{"pid":1`, Unclear},
		{"noted and dead", line(begun) + line(dead), Lost},
		{"this number is another's now", line(begun) + line(proof{PID: os.Getpid(), Ticks: 1}), Lost},
		{"before the machine started", line(earlier) + line(proof{PID: os.Getpid()}), Lost},
		{"torn end", line(begun) + line(dead) + `{"end":{"code":`, Lost},
		{"end that may lack a byte", line(begun) + line(dead) + `{"end":{"code":3}}`, Lost},
		{"end", line(begun) + line(dead) + line(closing{&Ending{Code: 3}}), Ended},
		{"end without a note", line(begun) + line(closing{&Ending{Code: 3}}), Ended},
	} {
		dir := t.TempDir()
		r := recordOf(dir, "a")
		if k.start != "" {
			if err := os.WriteFile(r.start(), []byte(k.start), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		known, err := Recover(dir, "a")
		if err != nil || known.State != k.want || known.Supervised || k.want == Ended && known.Ending.Code != 3 {
			t.Errorf("%s: %+v, %v, want %s", k.name, known, err, k.want)
		}
	}
}

// TestOnce shows that one id is started once however often it is asked for, and
// that everybody who asks gets the same.
func TestOnce(t *testing.T) {
	c, files := newClient(t), t.TempDir()
	gate := fifo(t, files, "gate")
	const askers = 8
	var all sync.WaitGroup
	begun := make(chan struct{}, askers)
	for range askers {
		all.Go(func() {
			var out strings.Builder
			end, err := c.Run(context.Background(), shell("a", files, "echo x >>ran; echo one; read x <gate; echo two; exit 2"), func(b []byte) {
				if out.Len() == 0 {
					begun <- struct{}{}
				}
				out.Write(b)
			})
			if err != nil || end.Code != 2 || out.String() != "one\ntwo\n" {
				t.Errorf("output %q, ending %+v, %v", out.String(), end, err)
			}
		})
	}
	for range askers {
		<-begun
	}
	open(t, gate)
	all.Wait()
	if ran, err := os.ReadFile(filepath.Join(files, "ran")); err != nil || string(ran) != "x\n" {
		t.Errorf("it ran %q, %v", ran, err)
	}
}

// TestTwoClients shows that two processes may listen to one command, each from
// its own offset, and that one may cancel what the other started.
func TestTwoClients(t *testing.T) {
	c := newClient(t)
	begun := make(chan struct{})
	var first strings.Builder
	ended := make(chan Ending)
	go func() {
		end, err := c.Run(context.Background(), shell("a", "/", "echo 0123456789; sleep 1000"), func(b []byte) {
			first.Write(b)
			close(begun)
		})
		if err != nil {
			t.Error(err)
		}
		ended <- end
	}()
	<-begun
	other, known, err := Find(c.dir, "a")
	if err != nil || other == nil || !known.Supervised {
		t.Fatalf("found %+v, %v", known, err)
	}
	defer other.Close(false)
	var second strings.Builder
	end, err := other.Attach(context.Background(), "a", 5, func(b []byte) {
		second.Write(b)
		if err := other.Cancel("a"); err != nil {
			t.Error(err)
		}
	})
	if got := <-ended; err != nil || !end.Cancelled || !got.Cancelled || first.String() != "0123456789\n" || second.String() != "56789\n" {
		t.Errorf("%q and %q, %+v and %+v, %v", first.String(), second.String(), got, end, err)
	}
	if err := other.Collect("a"); err != nil {
		t.Error(err)
	}
	if err := c.Collect("a"); !errors.Is(err, ErrUnknown) {
		t.Errorf("collected twice: %v", err)
	}
}

// TestLeaves shows when a supervisor goes: at once when nothing is left, after
// its patience when results are left, and never under a running command.
func TestLeaves(t *testing.T) {
	files := t.TempDir()
	gate := fifo(t, files, "gate")
	c, err := New(filepath.Join(t.TempDir(), "sup"), Options{Linger: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	mustRun(t, c, shell("kept", "/", "echo kept"))
	begun, detached := make(chan struct{}), make(chan error)
	go func() {
		_, err := c.Run(context.Background(), shell("running", files, "echo; read x <gate"), func([]byte) { close(begun) })
		detached <- err
	}()
	<-begun
	_, record, err := recoverRecord(c.dir, "kept")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(false); err != nil {
		t.Error(err)
	}
	if err := <-detached; !errors.Is(err, ErrDetached) {
		t.Errorf("error %v", err)
	}
	if !record.Supervisor.alive() {
		t.Error("it left a running command")
	}
	open(t, gate)
	eventually(t, "its leaving", func() bool { return !record.Supervisor.alive() })
	for _, id := range []string{"kept", "running"} {
		if known, err := Recover(c.dir, id); err != nil || known.State != Ended {
			t.Errorf("%s: %+v, %v", id, known, err)
		}
	}
	if sockets, err := filepath.Glob(filepath.Join(c.dir, "*.sock")); err != nil || len(sockets) > 0 {
		t.Errorf("left behind: %v, %v", sockets, err)
	}
}

// TestStopAll shows that a clean end of Stave ends everything.
func TestStopAll(t *testing.T) {
	c := newClient(t)
	begun, ended := make(chan struct{}), make(chan Ending)
	go func() {
		end, err := c.Run(context.Background(), shell("a", "/", "echo; sleep 1000"), func([]byte) { close(begun) })
		if err != nil {
			t.Error(err)
		}
		ended <- end
	}()
	<-begun
	_, record, err := recoverRecord(c.dir, "a")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.simple(askStop, nil); err != nil {
		t.Error(err)
	}
	if end := <-ended; !end.Cancelled {
		t.Errorf("ending %+v", end)
	}
	if err := c.Close(false); err != nil {
		t.Error(err)
	}
	eventually(t, "its leaving", func() bool { return !record.Supervisor.alive() })
}

// TestBadMessages shows that nonsense on the socket costs only its sender.
func TestBadMessages(t *testing.T) {
	c := newClient(t)
	mustRun(t, c, shell("a", "/", "true"))
	frame := func(kind byte, body string) []byte {
		var b bytes.Buffer
		if err := writeFrame(&b, kind, []byte(body)); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	huge := binary.BigEndian.AppendUint32(nil, 1<<31)
	for name, message := range map[string][]byte{
		"noise": []byte("GET / HTTP/1.1\r\n\r\n"), "huge": append(huge, 's'), "unknown kind": frame('?', `{"id":"a"}`),
		"bad start": frame(askStart, "{"), "bad attach": frame(askAttach, `{"id":"a","from":-1}`), "bad cancel": frame(askCancel, "[]"),
	} {
		conn, err := net.Dial("unix", filepath.Join(c.dir, c.socket))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write(message); err != nil {
			t.Error(err)
		}
		if n, err := conn.Read(make([]byte, 1)); n != 0 || err == nil {
			t.Errorf("%s was answered: %v", name, err)
		}
		conn.Close()
	}
	if out, _ := mustRun(t, c, shell("b", "/", "echo well")); out != "well\n" {
		t.Errorf("afterwards: %q", out)
	}
}

// TestPrivate shows that the supervisor works only in a directory of its own and
// gives nothing of our environment on.
func TestPrivate(t *testing.T) {
	t.Setenv("STAVE_TEST_SECRET", "canary")
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 40), "sup")
	c, err := New(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(true)
	if out, _ := mustRun(t, c, shell("a", "/", "env; umask; ls -l /proc/self/fd | grep -c sup")); strings.Contains(out, "canary") || !strings.HasSuffix(out, "\n0\n") {
		t.Errorf("a command sees %q", out)
	}
	if data := environ(supervisorPID(t, dir, "a")); bytes.Contains(data, []byte("canary")) {
		t.Error("the supervisor has our environment")
	}
	info, err := os.Stat(filepath.Join(dir, c.socket))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket has mode %v, %v", info.Mode(), err)
	}
	shared := t.TempDir()
	if err := os.Chmod(shared, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := New(shared, Options{}); err == nil {
		t.Error("a directory others may enter was accepted")
	}
}

// FuzzFrame shows that no bytes break the reader, and that what is written is
// read.
func FuzzFrame(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 's', 'x'})
	f.Add([]byte{255, 255, 255, 255, 's'})
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, body, _, err := readFrame(bufio.NewReader(bytes.NewReader(data)), nil); err == nil && len(body) > len(data) {
			t.Errorf("%d bytes out of %d", len(body), len(data))
		}
		var b bytes.Buffer
		if err := writeFrame(&b, 'o', data); err != nil {
			t.Fatal(err)
		}
		if kind, body, _, err := readFrame(bufio.NewReader(&b), nil); err != nil || kind != 'o' || !bytes.Equal(body, data) {
			t.Errorf("kind %c, %d bytes, %v", kind, len(body), err)
		}
	})
}
