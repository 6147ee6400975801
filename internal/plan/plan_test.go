package plan

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// lineEditor adds one line at the end.
type lineEditor struct{}

func (lineEditor) Apply(args map[string]string, prev []byte, _ bool) ([]byte, error) {
	if bytes.Contains(prev, []byte(args["line"])) {
		return prev, nil
	}
	return append(bytes.Clone(prev), args["line"]...), nil
}

func (lineEditor) Revert(args map[string]string, cur []byte) ([]byte, bool, error) {
	next := bytes.ReplaceAll(cur, []byte(args["line"]), nil)
	return next, len(next) > 0, nil
}

func editors() Editors { return Editors{"line": lineEditor{}} }

func line(s string) *Edit { return &Edit{Name: "line", Args: map[string]string{"line": s}} }

func text(s string) State { return FileState([]byte(s), 0o644) }

func absent() State { return State{Type: TypeAbsent} }

// entry is a ledger entry of group g for /f.
func entry(k Kind, prior, wrote State, e *Edit) Ledger {
	return Ledger{Version: LedgerVersion, Entries: []Entry{{Path: "/f", Kind: k, Group: "g", Edit: e, Prior: prior, Wrote: bare(wrote)}}}
}

func TestDiff(t *testing.T) {
	file := Step{Kind: KindFile, Path: "/f", Content: []byte("want\n"), Group: "g"}
	edit := Step{Kind: KindEdit, Path: "/f", Edit: line("ours\n"), Group: "g"}
	tests := []struct {
		name   string
		step   Step
		seen   State
		ledger Ledger
		want   string // symbol and operation
		to     State
		prior  State // what an undo would restore
	}{
		{"a file that is so already is nobody's business", file, text("want\n"), Ledger{}, "= keep", text("want\n"), text("want\n")},
		{"a new file", file, absent(), Ledger{}, "+ create", text("want\n"), absent()},
		{"a file that others had there", file, text("theirs\n"), Ledger{}, "~ change", text("want\n"), text("theirs\n")},
		{"another mode is another file", file, FileState([]byte("want\n"), 0o600), Ledger{}, "~ change", text("want\n"), FileState([]byte("want\n"), 0o600)},
		{"our own earlier content", file, text("old\n"), entry(KindFile, absent(), text("old\n"), nil), "~ change", text("want\n"), absent()},
		{"somebody changed ours: the first prior stays", file, text("theirs\n"), entry(KindFile, absent(), text("want\n"), nil), "! change", text("want\n"), absent()},
		{"somebody removed ours", file, absent(), entry(KindFile, text("prior\n"), text("want\n"), nil), "! create", text("want\n"), text("prior\n")},
		{"recorded, then crashed before writing", file, text("prior\n"), entry(KindFile, text("prior\n"), text("want\n"), nil), "~ change", text("want\n"), text("prior\n")},
		{"an edit", edit, text("a\n"), Ledger{}, "~ change", text("a\nours\n"), text("a\n")},
		{"an edit that is there", edit, text("a\nours\n"), Ledger{}, "= keep", text("a\nours\n"), text("a\nours\n")},
		{"others changed the file around our edit", edit, text("b\nours\n"), entry(KindEdit, text("a\n"), text("a\nours\n"), line("ours\n")), "= keep", text("b\nours\n"), text("b\n")},
		{"others rendered the file anew", edit, text("b\n"), entry(KindEdit, text("a\n"), text("a\nours\n"), line("ours\n")), "! change", text("b\nours\n"), text("b\n")},
		{"our edit with other arguments replaces the old one", edit, text("a\nold\n"), entry(KindEdit, text("a\n"), text("a\nold\n"), line("old\n")), "~ change", text("a\nours\n"), text("a\n")},
		{"a link", Step{Kind: KindSymlink, Path: "/f", Target: "x"}, absent(), Ledger{}, "+ create", State{Type: TypeSymlink, Target: "x", Mode: 0o777}, absent()},
		{"a link elsewhere", Step{Kind: KindSymlink, Path: "/f", Target: "x"}, State{Type: TypeSymlink, Target: "y"}, Ledger{}, "~ change", State{Type: TypeSymlink, Target: "x", Mode: 0o777}, State{Type: TypeSymlink, Target: "y"}},
		{"a directory that is there keeps its mode", Step{Kind: KindDirectory, Path: "/f"}, State{Type: TypeDirectory, Mode: 0o700}, Ledger{}, "= keep", State{Type: TypeDirectory, Mode: 0o700}, State{Type: TypeDirectory, Mode: 0o700}},
		{"a device", Step{Kind: KindDevice, Path: "/f", Major: 195, Minor: 255}, absent(), Ledger{}, "+ create", State{Type: TypeDevice, Major: 195, Minor: 255, Mode: 0o666}, absent()},
		{"away with it", Step{Kind: KindAbsent, Path: "/f"}, text("x"), Ledger{}, "- remove", absent(), text("x")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cs, err := Diff([]Step{tt.step}, Observed{Paths: map[string]State{"/f": tt.seen}}, tt.ledger, Options{Editors: editors(), Group: "g"})
			if err != nil || len(cs) != 1 {
				t.Fatalf("Diff = %v, %v", cs, err)
			}
			if got := cs[0].Symbol() + " " + string(cs[0].Op); got != tt.want {
				t.Errorf("change is %q, want %q", got, tt.want)
			}
			if diff := cmp.Diff(tt.to, cs[0].To); diff != "" {
				t.Errorf("to (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.prior, *cs[0].Prior); diff != "" {
				t.Errorf("prior (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDiffRefuses(t *testing.T) {
	dir := State{Type: TypeDirectory, Mode: 0o755}
	tests := []struct {
		name string
		step Step
		seen map[string]State
		says string
	}{
		{"a path that was not looked at", Step{Kind: KindFile, Path: "/f"}, nil, "not looked at"},
		{"a relative path", Step{Kind: KindFile, Path: "f"}, map[string]State{"f": absent()}, "not absolute"},
		{"a path with dots", Step{Kind: KindFile, Path: "/a/../f"}, map[string]State{"/a/../f": absent()}, "not absolute"},
		{"a directory in the way", Step{Kind: KindFile, Path: "/f"}, map[string]State{"/f": dir}, "directory is in the way"},
		{"a file where a directory is needed", Step{Kind: KindDirectory, Path: "/f"}, map[string]State{"/f": text("x")}, "file is in the way"},
		{"a socket", Step{Kind: KindFile, Path: "/f"}, map[string]State{"/f": {Type: TypeOther}}, "nothing will be done"},
		{"an unknown edit", Step{Kind: KindEdit, Path: "/f", Edit: &Edit{Name: "?"}}, map[string]State{"/f": absent()}, `unknown edit "?"`},
		{"an unknown kind", Step{Kind: "?", Path: "/f"}, map[string]State{"/f": absent()}, "unknown kind"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cs, err := Diff([]Step{tt.step}, Observed{Paths: tt.seen}, Ledger{}, Options{Editors: editors()})
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("Diff = %v, %v; want %q", cs, err, tt.says)
			}
		})
	}
}

// TestDiffStale: what no step wants any more is taken back, before the restart.
func TestDiffStale(t *testing.T) {
	l := entry(KindFile, absent(), text("old\n"), nil)
	seen := Observed{Paths: map[string]State{"/f": text("old\n"), "/n": absent()}}
	steps := []Step{{Kind: KindFile, Path: "/n", Group: "g"}, {Kind: KindRestart, Path: "u", Because: []string{"/n"}}}
	cs, err := Diff(steps, seen, l, Options{Group: "g"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range cs {
		got = append(got, c.Symbol()+c.Path)
	}
	if diff := cmp.Diff([]string{"+/n", "-/f", "~u"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, o := range map[string]Options{"another group": {Group: "h"}, "left": {Group: "g", Leave: []string{"/f"}}} {
		if cs, err := Diff(steps, seen, l, o); err != nil || len(cs) != 2 {
			t.Errorf("%s: %v, %v", name, cs, err)
		}
	}
}

func TestRunning(t *testing.T) {
	steps := []Step{{Kind: KindModule, Path: "nvidia"}, {Kind: KindUnit, Path: "x.service"}, {Kind: KindRestart, Path: "c.service", Because: []string{"/f"}}}
	seen := Observed{Modules: map[string]bool{"nvidia": true}, Units: map[string]bool{"x.service": true}}
	cs, err := Diff(steps, seen, Ledger{}, Options{})
	if err != nil || !cs.Settled() {
		t.Errorf("all there: %v, %v", cs, err)
	}
	cs, err = Diff(steps, Observed{}, Ledger{}, Options{})
	if err != nil || len(cs.Effective()) != 2 {
		t.Errorf("nothing there: %v, %v; want module and unit to run", cs, err)
	}
}

func TestUndo(t *testing.T) {
	dir := func(n int) State { return State{Type: TypeDirectory, Mode: 0o755, Entries: n} }
	tests := []struct {
		name   string
		ledger Ledger
		seen   State
		want   string
		to     State
	}{
		{"ours is removed", entry(KindFile, absent(), text("w"), nil), text("w"), "- remove", absent()},
		{"the prior comes back", entry(KindFile, text("p"), text("w"), nil), text("w"), "~ change", text("p")},
		{"a removed file comes back", entry(KindAbsent, text("p"), absent(), nil), absent(), "+ create", text("p")},
		{"it is as before already", entry(KindFile, text("p"), text("w"), nil), text("p"), "= keep", text("p")},
		{"somebody else's is left", entry(KindFile, absent(), text("w"), nil), text("x"), "! keep", text("x")},
		{"our edit leaves a file that others changed", entry(KindEdit, text("a\n"), text("a\nours\n"), line("ours\n")), text("b\nours\nc\n"), "~ change", text("b\nc\n")},
		{"a file begun by our edit goes with it", entry(KindEdit, absent(), text("ours\n"), line("ours\n")), text("ours\nours\n"), "- remove", absent()},
		{"others took our edit out", entry(KindEdit, text("a\n"), text("a\nours\n"), line("ours\n")), text("b\n"), "= keep", text("b\n")},
		{"an empty directory of ours", entry(KindDirectory, absent(), dir(0), nil), dir(0), "- remove", absent()},
		{"a directory with things of others", entry(KindDirectory, absent(), dir(0), nil), dir(2), "! keep", dir(2)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cs, err := Undo(tt.ledger, Observed{Paths: map[string]State{"/f": tt.seen}}, editors())
			if err != nil || len(cs) != 1 {
				t.Fatalf("Undo = %v, %v", cs, err)
			}
			if got := cs[0].Symbol() + " " + string(cs[0].Op); got != tt.want || !cs[0].Drop {
				t.Errorf("change is %q (drop %v), want %q", got, cs[0].Drop, tt.want)
			}
			if diff := cmp.Diff(tt.to, cs[0].To); diff != "" {
				t.Errorf("to (-want +got):\n%s", diff)
			}
		})
	}
	if _, err := Undo(entry(KindFile, absent(), text("w"), nil), Observed{}, nil); err == nil {
		t.Error("a path that was not looked at was undone")
	}
}

func TestParseLedger(t *testing.T) {
	good, err := entry(KindEdit, text("a\n"), text("a\nours\n"), line("ours\n")).Format()
	if err != nil {
		t.Fatal(err)
	}
	back, err := ParseLedger(good)
	if err != nil {
		t.Fatal(err)
	}
	again, _ := back.Format()
	if !bytes.Equal(good, again) {
		t.Errorf("a ledger changes by being read:\n%s\n%s", good, again)
	}
	if l, err := ParseLedger([]byte(" \n")); err != nil || len(l.Entries) != 0 {
		t.Errorf("empty ledger = %v, %v", l, err)
	}
	tests := []struct{ name, data, says string }{
		{"not JSON", "{", "decoding ledger"},
		{"another release's", `{"version":2,"entries":[]}`, "format version 2, want 1"},
		{"an unknown field", `{"version":1,"entries":[],"x":1}`, "unknown field"},
		{"a path that leaves the root", `{"version":1,"entries":[{"path":"/../x","kind":"file"}]}`, "entry 1"},
		{"twice", strings.Replace(string(good), `"entries": [`, `"entries": [{"path":"/f","kind":"file","prior":{"type":"absent"},"wrote":{"type":"absent"}},`, 1), "twice"},
		{"tampered content", strings.Replace(string(good), `"content": "YQo="`, `"content": "Ygo="`, 1), "does not match its hash"},
		{"a restart", `{"version":1,"entries":[{"path":"/x","kind":"restart"}]}`, "nothing to undo"},
		{"an unknown type", `{"version":1,"entries":[{"path":"/x","kind":"file","prior":{"type":"?"}}]}`, `unknown type "?"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := ParseLedger([]byte(tt.data)); err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("ParseLedger = %v, want %q", err, tt.says)
			}
		})
	}
}

// TestReverse: what a roll back does after a first and after a later change.
func TestReverse(t *testing.T) {
	first := Change{Op: OpCreate, Kind: KindFile, Path: "/f", From: absent(), To: text("new"), Prior: new(absent())}
	later := Change{Op: OpChange, Kind: KindFile, Path: "/g", From: text("old"), To: text("new"), Prior: new(absent())}
	back := Reverse(Changes{first, later, {Op: OpRun, Kind: KindRestart, Path: "u"}, {Op: OpKeep, Kind: KindFile, Path: "/k"}})
	if len(back) != 2 || back[0].Path != "/g" || back[0].Drop || back[1].Op != OpRemove || !back[1].Drop {
		t.Errorf("Reverse = %+v", back)
	}
}

// TestPrint: a change as people and programs read it.
func TestPrint(t *testing.T) {
	c := Change{Op: OpChange, Kind: KindEdit, Path: "/f", From: text("a\r\nb\n"), To: text("a\r\nours\nb\n"), Why: "why"}
	if got := (Changes{c}).String(); !strings.HasSuffix(got, "# why\n    + ours\n") || !strings.HasPrefix(got, "~ edit      /f [file 0644 sha256:") {
		t.Errorf("String = %q", got)
	}
	data, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var back map[string]any
	if err := json.Unmarshal(data, &back); err != nil || back["symbol"] != "~" || back["text"] != "    + ours\n" || back["from"].(map[string]any)["mode"] != "0644" {
		t.Errorf("JSON = %s, %v", data, err)
	}
}

func TestStatus(t *testing.T) {
	e := entry(KindEdit, text("a\n"), text("a\nours\n"), line("ours\n")).Entries[0]
	for want, seen := range map[string]State{StatusOurs: text("other\nours\n"), StatusDrifted: text("other\n"), StatusMissing: absent()} {
		if got := e.Status(seen, editors()); got != want {
			t.Errorf("Status(%s) = %q, want %q", seen, got, want)
		}
	}
}
