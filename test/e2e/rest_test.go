package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// auditLog names the API server's audit log, one JSON object a line.
const auditLog = "GPULAB_AUDIT_LOG"

// restFor is how long nothing may happen. The full five minutes are told by
// `make test-all`, which sets REST_MINUTES.
func restFor(t *testing.T) time.Duration {
	t.Helper()
	if m := os.Getenv("REST_MINUTES"); m != "" {
		d, err := time.ParseDuration(m + "m")
		if err != nil {
			t.Fatalf("REST_MINUTES=%q is not a number of minutes", m)
		}
		return d
	}
	return time.Minute
}

// request is what the audit log says of one API request.
type request struct {
	Stage string `json:"stage"`
	Verb  string `json:"verb"`
	URI   string `json:"requestURI"`
	User  struct {
		Username string `json:"username"`
	} `json:"user"`
}

// ours are the requests of our own service accounts from byte offset on, watches
// and leases apart, and how many of any kind there were.
func ours(t *testing.T, file string, offset int64) (found []string, all int) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("reading the audit log: %v", err)
	}
	for line := range strings.SplitSeq(string(data[offset:]), "\n") {
		var r request
		if line == "" || json.Unmarshal([]byte(line), &r) != nil {
			continue
		}
		all++
		if !strings.HasPrefix(r.User.Username, "system:serviceaccount:"+namespace+":") {
			continue
		}
		if r.Verb == "watch" || strings.Contains(r.URI, "/leases/") || r.Stage == "RequestReceived" {
			continue
		}
		found = append(found, fmt.Sprintf("%s %s %s", r.User.Username, r.Verb, r.URI))
	}
	return found, all
}

func nothingAtRest(t *testing.T, c *cluster) {
	file := os.Getenv(auditLog)
	if file == "" {
		t.Fatalf("%s must name the API server's audit log", auditLog)
	}
	c.policyReady(t, readyWithin)
	c.eventually(t, 2*time.Minute, "the last change has been reported", func(context.Context) string {
		return quietFor(t, file, 15*time.Second)
	})
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	rest := restFor(t)
	// The story is about a span of time in which nothing happens: waiting for it to
	// pass is the point, not a synchronisation.
	select {
	case <-time.After(rest):
	case <-t.Context().Done():
	}
	found, all := ours(t, file, info.Size())
	if all == 0 {
		t.Error("the audit log shows no request of anybody: it proves nothing")
	}
	if len(found) > 0 {
		t.Errorf("%d requests in %s at rest:\n%s", len(found), rest, strings.Join(found, "\n"))
	}
	t.Logf("in %s at rest: %d of our requests, %d of everybody's", rest, len(found), all)
}

// countRequests starts counting the requests of our accounts; what it returns prints
// the count so far, by account and verb.
func countRequests(t *testing.T) func() string {
	t.Helper()
	file := os.Getenv(auditLog)
	info, err := os.Stat(file)
	if err != nil {
		t.Fatalf("looking at the audit log (%s): %v", auditLog, err)
	}
	return func() string {
		found, _ := ours(t, file, info.Size())
		counts := map[string]int{}
		for _, r := range found {
			f := strings.Fields(r)
			counts[f[0][strings.LastIndex(f[0], ":")+1:]+" "+f[1]+" "+resourceOf(f[2])]++
		}
		var lines []string
		for what, n := range counts {
			lines = append(lines, fmt.Sprintf("%d %s", n, what))
		}
		slices.Sort(lines)
		return fmt.Sprintf("%d\n%s", len(found), strings.Join(lines, "\n"))
	}
}

// resourceOf names what a request was about: the path without its query and without
// the name of one object.
func resourceOf(uri string) string {
	p, _, _ := strings.Cut(uri, "?")
	parts := strings.Split(strings.Trim(p, "/"), "/")
	for i, part := range parts {
		if part == "nodes" || part == "gpunodes" || part == "pods" {
			if i+1 < len(parts) {
				parts[i+1] = "*"
			}
			return strings.Join(parts[i:], "/")
		}
	}
	return p
}

// quietFor is "" once our accounts made no request for the span before now.
func quietFor(t *testing.T, file string, span time.Duration) string {
	t.Helper()
	info, err := os.Stat(file)
	if err != nil {
		return err.Error()
	}
	select {
	case <-time.After(span):
	case <-t.Context().Done():
	}
	found, _ := ours(t, file, info.Size())
	if len(found) > 0 {
		return found[len(found)-1]
	}
	return ""
}
