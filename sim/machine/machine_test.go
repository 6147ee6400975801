package machine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// model reads one of the models that ship.
func model(t *testing.T, name string) Model {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../machines", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := ParseModel(name, data)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestEveryModelIsSound(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../machines/*.yaml")
	if err != nil || len(files) < 6 {
		t.Fatalf("models: %v %v", files, err)
	}
	for _, f := range files {
		m := model(t, strings.TrimSuffix(filepath.Base(f), ".yaml"))
		made, err := Make("n", m, len(m.Slots))
		if err != nil {
			t.Errorf("%s: %v", f, err)
			continue
		}
		seen := map[string]bool{}
		for _, g := range made.GPUs {
			for _, unique := range []string{g.Bus, g.Values["uuid"], g.Values["serial"]} {
				if seen[unique] {
					t.Errorf("%s: %q stands twice", f, unique)
				}
				seen[unique] = true
			}
		}
	}
}

func TestTheSameNodeIsTheSameMachine(t *testing.T) {
	t.Parallel()
	m := model(t, "T4")
	a, err := Make("a", m, 2)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Make("a", m, 2)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(a, again); d != "" {
		t.Errorf("two makings differ:\n%s", d)
	}
	b, err := Make("b", m, 2)
	if err != nil {
		t.Fatal(err)
	}
	if a.GPUs[0].Values["uuid"] == b.GPUs[0].Values["uuid"] {
		t.Error("two nodes have the same GPU")
	}
}

func TestBadModels(t *testing.T) {
	t.Parallel()
	good := "product: X\ndeviceID: \"0x1EB810DE\"\nclass: \"030200\"\nslots: [{bus: \"0000:01:00.0\"}]\nvalues: {memory.total: \"1\", architecture: \"6\", cc.major: \"7\", temperature: \"30\", power: \"1\"}\n"
	for name, tc := range map[string]struct{ text, want string }{
		"sound":         {good, ""},
		"no product":    {strings.Replace(good, "product: X\n", "", 1), `field "product" is missing`},
		"no slots":      {strings.Replace(good, "slots: [{bus: \"0000:01:00.0\"}]\n", "", 1), `field "slots" is empty`},
		"no memory":     {strings.Replace(good, "memory.total: \"1\", ", "", 1), `field "values.memory.total" is missing`},
		"unknown field": {good + "colour: green\n", `unknown field "colour"`},
		"bad number":    {strings.Replace(good, `temperature: "30"`, `temperature: "warm"`, 1), `value "warm" of "temperature" is not a whole number`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := ParseModel("m.yaml", []byte(tc.text))
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}

func TestRecordRoundTrip(t *testing.T) {
	t.Parallel()
	m, err := Make("n", model(t, "H100-SXM5-80GB"), 8)
	if err != nil {
		t.Fatal(err)
	}
	r := NewRecord(m, "550.163.01", time.Unix(1000, 0))
	data, err := FormatRecord(r)
	if err != nil {
		t.Fatal(err)
	}
	if len(data) != RecordSize {
		t.Errorf("the record has %d bytes, want %d always", len(data), RecordSize)
	}
	back, err := ParseRecord(data)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(r, back); d != "" {
		t.Errorf("record (-written +read):\n%s", d)
	}
	data[HeaderSize+3] ^= 1
	if _, err := ParseRecord(data); err == nil || !strings.Contains(err.Error(), "checksum") {
		t.Errorf("a torn record reads: %v", err)
	}
}

func TestSet(t *testing.T) {
	t.Parallel()
	base := Record{Sequence: 4, GPUs: []map[string]string{{"power": "100", "temperature": "30"}}}
	at := time.Unix(1000, 0)
	for name, tc := range map[string]struct {
		index int
		pairs []string
		want  map[string]string // values that must be; energy apart
		err   string
	}{
		"a temperature":      {0, []string{"temperature=91"}, map[string]string{"temperature": "91"}, ""},
		"an XID is an event": {0, []string{"xid=79", "xid=79"}, map[string]string{"xid": "79", "xid.sequence": "2", "xid.log": "79 79"}, ""},
		"a process":          {0, []string{"process.1=12:4096"}, map[string]string{"process.1": "12:4096"}, ""},
		"a process ends":     {0, []string{"process.1=12:4096", "process.1="}, map[string]string{"process.1": ""}, ""},
		"no such GPU":        {1, []string{"xid=1"}, nil, "this machine has GPUs 0 to 0, not 1"},
		"unknown key":        {0, []string{"colour=green"}, nil, `key "colour" cannot be set; these can:`},
		"not a pair":         {0, []string{"temperature"}, nil, "is not key=value"},
		"bad number":         {0, []string{"power=much"}, nil, "is not a number from 0"},
		"not a number":       {0, []string{"power=NaN"}, nil, "is not a number from 0"},
		"too large":          {0, []string{"power=1e30"}, nil, "is not a number from 0"},
		"negative":           {0, []string{"temperature=-4"}, nil, "is not a whole number from 0"},
		"half an XID":        {0, []string{"xid=1.5"}, nil, "is not the code of an XID"},
		"no partitions":      {0, []string{"mig=on"}, nil, "cannot be partitioned"},
		"a newline":          {0, []string{"process.1\n=1:1"}, nil, "newline"},
		"two values":         {0, []string{"hang=true=false"}, nil, "holds a '='"},
		"bad flag":           {0, []string{"lost=maybe"}, nil, "is not true or false"},
		"bad hang":           {0, []string{"hang=-1"}, nil, "is not true, false or a number of seconds"},
		"bad process":        {0, []string{"process.1=x"}, nil, "is not pid:bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			next, err := Set(base, tc.index, tc.pairs, at)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("error %v, want %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for k, v := range tc.want {
				if next.GPUs[0][k] != v {
					t.Errorf("%s is %q, want %q", k, next.GPUs[0][k], v)
				}
			}
			if next.Sequence != 5 || base.GPUs[0]["temperature"] != "30" {
				t.Errorf("sequence %d, former record %v", next.Sequence, base.GPUs[0])
			}
		})
	}
}
