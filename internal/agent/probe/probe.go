// Package probe answers the kubelet's probes of node agents over HTTP: a check that
// fails is a 503 with the check's own words.
package probe

import "net/http"

// Handle serves each check under its path on mux.
func Handle(mux *http.ServeMux, checks map[string]func() error) {
	for path, check := range checks {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			if err := check(); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
			_, _ = w.Write([]byte("ok\n"))
		})
	}
}
