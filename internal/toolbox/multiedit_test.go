package toolbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func oneEdit(path, old, new string) args {
	return args{"path": path, "old_string": old, "new_string": new}
}

// TestMultiEdit shows that edits apply in order and that one that does not
// apply is named and leaves every file alone.
func TestMultiEdit(t *testing.T) {
	for _, c := range []struct {
		name  string
		edits []args
		want  map[string]string // only what differs
		says  string
	}{
		{"two files", []args{oneEdit("a", "one", "1"), oneEdit("d/b", "two", "2")}, map[string]string{"a": "1 x\n", "d/b": "2 y\n"}, "edited a in 1 places\nedited d/b in 1 places\n"},
		{"in order", []args{oneEdit("a", "one", "two"), oneEdit("a", "two", "three")}, map[string]string{"a": "three x\n"}, "edited a in 2 places\n"},
		{"two spellings", []args{oneEdit("d/b", "two", "2"), oneEdit("./d//b", "2", "3")}, map[string]string{"d/b": "3 y\n"}, "edited d/b in 2 places\n"},
		{"cancel out", []args{oneEdit("a", "one", "1"), oneEdit("a", "1", "one")}, nil, "no change: the edits of a cancel each other\n"},
		{"second does not apply", []args{oneEdit("a", "one", "1"), oneEdit("d/b", "zzz", "2")}, nil, "edits[1], d/b: old_string does not occur in the file; read the file again; no file was changed"},
		{"not after the first", []args{oneEdit("a", "one", "1"), oneEdit("a", "one", "2")}, nil, "(1 earlier edits of this call had been applied to the text); no file was changed"},
		{"ambiguous", []args{oneEdit("a", "one", "1"), oneEdit("c", "z", "2")}, nil, "edits[1], c: old_string occurs 2 times, at lines 1, 2"},
		{"missing file", []args{oneEdit("a", "one", "1"), oneEdit("e", "z", "2")}, nil, "edits[1]: e does not exist; create it with Write; no file was changed"},
		{"outside", []args{oneEdit("a", "one", "1"), oneEdit("../e", "z", "2")}, nil, "edits[1]: ../e is outside the workspace"},
		{"same text", []args{oneEdit("a", "one", "one")}, nil, "edits[0]: old_string and new_string are the same"},
		{"one file by two names", []args{oneEdit("d/b", "two", "1"), oneEdit("link/b", "y", "2")}, nil, "edits[0] and edits[1] name the same file as d/b and link/b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			env := newEnv(t)
			files := map[string]string{"a": "one x\n", "d/b": "two y\n", "c": "z\nz\n"}
			for name, content := range files {
				env.put(name, content)
			}
			link(t, env, "d", "link")
			out, err := env.run(MultiEdit(), args{"edits": c.edits})
			if strings.HasSuffix(c.says, "\n") {
				if err != nil || out.Text != c.says {
					t.Errorf("%q, %v", out.Text, err)
				}
			} else {
				wantError(t, err, c.says, "no file was changed")
				if env.intent != nil {
					t.Errorf("declared %s", env.intent)
				}
			}
			maps.Copy(files, c.want)
			for name, want := range files {
				if got := env.get(name); got != want {
					t.Errorf("%s is %q, want %q", name, got, want)
				}
			}
			wantNoTemp(t, env)
		})
	}
}

// TestMultiEditBounds shows that neither files nor bytes grow without end.
func TestMultiEditBounds(t *testing.T) {
	env := newEnv(t)
	var edits []args
	for i := range maxEditFiles + 1 {
		name := fmt.Sprintf("f%d", i)
		env.put(name, "x"+strings.Repeat("y", maxEditTotal/maxEditFiles))
		edits = append(edits, oneEdit(name, "x", "z"))
	}
	_, err := env.run(MultiEdit(), args{"edits": edits})
	wantError(t, err, "edits[20] names one file more than the 20")
	_, err = env.run(MultiEdit(), args{"edits": edits[:maxEditFiles]})
	wantError(t, err, "together more than the 16777216 bytes")
	grow := oneEdit("f0", "x", strings.Repeat("w", 3<<20))
	env.put("f0", "xxx")
	env.put("f1", "xxx")
	grow["replace_all"] = true
	more := maps.Clone(grow)
	more["path"] = "f1"
	_, err = env.run(MultiEdit(), args{"edits": []args{grow, more}})
	wantError(t, err, "edits[1] makes the files grow beyond")
	if err := MultiEdit().Check(json.RawMessage(`{"edits":[]}`)); err == nil || !strings.Contains(err.Error(), `"edits" must have at least 1 items, not 0`) {
		t.Error(err)
	}
}

var errCrash = errors.New("crash")

// TestMultiEditCrash shows that a batch that died after any number of files is
// finished by the next attempt, and that a file someone else changed stops it.
func TestMultiEditCrash(t *testing.T) {
	call := args{"edits": []args{oneEdit("a", "old", "old new"), oneEdit("b", "old", "old new"), oneEdit("c", "old", "old new")}}
	names := []string{"a", "b", "c"}
	for written := range 8 { // which files the first attempt had replaced, as bits
		for _, foreign := range []string{"", "a", "c"} {
			t.Run(fmt.Sprintf("%03b %s", written, foreign), func(t *testing.T) {
				env := newEnv(t)
				for _, name := range names {
					env.put(name, "old")
				}
				var plan changes
				env.declare = func(b json.RawMessage) error { return errors.Join(json.Unmarshal(b, &plan), errCrash) }
				if _, err := env.run(MultiEdit(), call); !errors.Is(err, errCrash) {
					t.Fatalf("first attempt: %v", err)
				}
				for i, c := range plan.Files {
					env.put(c.Temp, "half")
					if written&(1<<i) != 0 {
						env.put(names[i], "old new")
					}
				}
				if foreign != "" {
					env.put(foreign, "third old")
				}
				declares := 0
				env.attempt, env.declare = 2, func(json.RawMessage) error { declares++; return nil }
				out := env.must(MultiEdit(), call)
				wantNoTemp(t, env)
				if declares != 0 {
					t.Errorf("declared again %d times", declares)
				}
				for i, name := range names {
					want := "old new"
					switch {
					case name == foreign:
						want = "third old"
					case foreign != "" && written&(1<<i) == 0:
						want = "old"
					}
					if got := env.get(name); got != want {
						t.Errorf("%s is %q, want %q", name, got, want)
					}
				}
				if out.Unknown != (foreign != "") || foreign != "" && !strings.Contains(out.Text, foreign+": neither as before nor as intended") {
					t.Errorf("unknown %v: %s", out.Unknown, out.Text)
				}
			})
		}
	}
}

// TestMultiEditLostFile shows that a retry that cannot even look at its files
// does not claim that nothing happened.
func TestMultiEditLostFile(t *testing.T) {
	env := newEnv(t)
	env.put("a", "old")
	env.put("b", "old")
	call := args{"edits": []args{oneEdit("a", "old", "new"), oneEdit("b", "old", "new")}}
	env.declare = func(json.RawMessage) error { return errCrash }
	env.run(MultiEdit(), call)
	if err := os.Remove(filepath.Join(env.dir, "b")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(env.dir, "b"), 0o755); err != nil {
		t.Fatal(err)
	}
	env.attempt = 2
	out, err := env.run(MultiEdit(), call)
	if err != nil || !out.Unknown || !strings.Contains(out.Text, "nobody can tell") || env.get("a") != "old" {
		t.Errorf("%+v, %v, a is %q", out, err, env.get("a"))
	}
}

// TestMultiEditTakesBack shows that a failure between two files leaves none of
// them changed.
func TestMultiEditTakesBack(t *testing.T) {
	env := newEnv(t)
	for _, name := range []string{"a", "b"} {
		env.put(name, "old")
	}
	edits := []editArgs{{Path: "a", OldString: "old", NewString: "new"}, {Path: "b", OldString: "old", NewString: "new"}}
	for _, spoiled := range []bool{false, true} {
		b := &batch{}
		defer b.close()
		ctx := context.Background()
		if err := errors.Join(b.open(ctx, env, edits), b.plan(edits), b.declare(ctx, env), b.stage(ctx)); err != nil {
			t.Fatal(err)
		}
		env.put("b", "foreign")
		if spoiled {
			// Someone writes to the first file too, so that it cannot be taken back.
			if err := b.files[0].put(); err != nil {
				t.Fatal(err)
			}
			b.files[0].temp = ""
			env.put("a", "foreign too")
		}
		out, err := b.failed(b.commit())
		if spoiled {
			if err != nil || !out.Unknown || !strings.Contains(out.Text, "a: neither as before nor as intended\nb: neither") || env.get("a") != "foreign too" {
				t.Errorf("%+v, %v", out, err)
			}
			continue
		}
		wantError(t, err, "b: changed while it was being written", "no file was changed")
		if env.get("a") != "old" || env.get("b") != "foreign" {
			t.Errorf("a is %q, b is %q", env.get("a"), env.get("b"))
		}
		env.put("b", "old")
	}
}

// TestMultiEditIsEdits shows that a batch does what its edits do one by one, or
// nothing when one of them fails.
func TestMultiEditIsEdits(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		together, single := newEnv(t), newEnv(t)
		names := []string{"a", "b"}
		start := map[string]string{}
		for _, name := range names {
			start[name] = rapid.StringMatching(`[xyz\n]{0,12}`).Draw(rt, name)
			together.put(name, start[name])
			single.put(name, start[name])
		}
		word := rapid.StringMatching(`[xyz]{1,2}`)
		var edits []args
		fails := false
		for range rapid.IntRange(1, 5).Draw(rt, "edits") {
			e := oneEdit(rapid.SampledFrom(names).Draw(rt, "file"), word.Draw(rt, "old"), word.Draw(rt, "new"))
			e["replace_all"] = rapid.Bool().Draw(rt, "all")
			edits = append(edits, e)
			if !fails {
				_, err := single.run(Edit(), e)
				fails = err != nil
			}
		}
		_, err := together.run(MultiEdit(), args{"edits": edits})
		if (err != nil) != fails {
			rt.Fatalf("together: %v, one by one failed: %v", err, fails)
		}
		for _, name := range names {
			want := single.get(name)
			if fails {
				want = start[name]
			}
			if diff := cmp.Diff(want, together.get(name)); diff != "" {
				rt.Error(diff)
			}
		}
	})
}
