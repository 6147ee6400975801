package exporter

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"gpu-operator/internal/device"
	"gpu-operator/internal/facts"
)

// Snapshot is what was collected last.
type Snapshot struct {
	// Samples are the GPUs' readings.
	Samples []facts.Sample
	// XIDs are the codes of the last error of each GPU, by UUID.
	XIDs map[string]int
	// Owners tell which container has which GPU, by UUID; OwnersKnown that the
	// kubelet has answered.
	Owners      map[string]Owner
	OwnersKnown bool
	// Driver says whether the driver answers at all.
	Driver bool
	// At is when it was collected, Took how long that took.
	At   time.Time
	Took time.Duration
}

// View is how a snapshot is printed.
type View struct {
	// Counters are the metrics, Unavailable those that were asked for and cannot be read.
	Counters, Unavailable []Counter
	// Hostname is the value of the label Hostname; empty: no such label.
	Hostname string
	// Kubernetes adds the labels container, namespace and pod.
	Kubernetes bool
	// ReplaceBlanks puts '-' for blanks into the model's name.
	ReplaceBlanks bool
}

// pair is a label.
type pair struct{ name, value string }

// Render prints a snapshot in the text format of Prometheus. The order of metrics
// and of labels is the one that the ecosystem's exporter has.
func Render(out io.Writer, s Snapshot, v View) error {
	b := &strings.Builder{}
	for _, c := range v.Counters {
		if c.Type != "label" {
			v.metric(b, s, c)
		}
	}
	v.own(b, s)
	_, err := io.WriteString(out, b.String())
	return err
}

// metric prints one metric of all GPUs that have it.
func (v View) metric(b *strings.Builder, s Snapshot, c Counter) {
	first := true
	for _, g := range s.Samples {
		value, ok := g.Values[c.Field]
		var extra []pair
		if c.Field == xidField && g.UUID != "" && g.State == facts.DevicePresent {
			code := s.XIDs[g.UUID]
			value, ok = float64(code), true
			extra = []pair{{"err_code", strconv.Itoa(code)}, {"err_msg", message(code)}}
		}
		if !ok {
			continue
		}
		if first {
			head(b, c.Field, c.Type, c.Help)
			first = false
		}
		line(b, c.Field, append(v.labels(s, g), extra...), value)
	}
}

// message says what an error code means.
func message(code int) string {
	if code == 0 {
		return "No Error"
	}
	if row, ok := device.XIDs()[code]; ok {
		return row.Text
	}
	return "Unknown Error"
}

// labels are those of every metric of a GPU.
func (v View) labels(s Snapshot, g facts.Sample) []pair {
	out := v.identity(g)
	for _, c := range v.Counters {
		if text, ok := g.Texts[c.Field]; ok && c.Type == "label" {
			out = append(out, pair{c.Field, text})
		} else if value, ok := g.Values[c.Field]; ok && c.Type == "label" {
			out = append(out, pair{c.Field, number(value)})
		}
	}
	if v.Kubernetes {
		o := s.Owners[g.UUID]
		out = append(out, pair{"container", o.Container}, pair{"namespace", o.Namespace}, pair{"pod", o.Pod})
	}
	return out
}

// identity are the labels that say which GPU it is.
func (v View) identity(g facts.Sample) []pair {
	model, device := g.Product, ""
	if v.ReplaceBlanks {
		model = strings.Join(strings.Fields(model), "-")
	}
	if g.Minor >= 0 && g.UUID != "" {
		device = fmt.Sprintf("nvidia%d", g.Minor)
	}
	out := []pair{
		{"gpu", strconv.Itoa(g.Index)}, {"UUID", g.UUID}, {"pci_bus_id", longBusID(g.BusID)}, {"device", device}, {"modelName", model},
	}
	if v.Hostname != "" {
		out = append(out, pair{"Hostname", v.Hostname})
	}
	return out
}

// longBusID is a PCI address with eight digits of the domain, as the driver prints it.
func longBusID(bus string) string {
	domain, rest, ok := strings.Cut(strings.ToUpper(bus), ":")
	if !ok {
		return ""
	}
	return strings.Repeat("0", max(0, 8-len(domain))) + domain + ":" + rest
}

// own prints what the exporter says of itself and of the GPUs' presence.
func (v View) own(b *strings.Builder, s Snapshot) {
	head(b, "gpu_up", "gauge", "Whether the GPU answers.")
	present := 0
	for _, g := range s.Samples {
		up := 0.0
		if s.Driver && g.State == facts.DevicePresent {
			up = 1
			present++
		}
		line(b, "gpu_up", v.identity(g), up)
	}
	single := func(name, help string, value float64) {
		head(b, name, "gauge", help)
		line(b, name, nil, value)
	}
	single("gpu_expected", "Number of GPUs that the driver has.", float64(len(s.Samples)))
	single("gpu_present", "Number of GPUs that answer.", float64(present))
	single("gpu_exporter_driver_up", "Whether the driver answers.", truth(s.Driver))
	if v.Kubernetes {
		single("gpu_exporter_podresources_up", "Whether the kubelet has said which container has which GPU.", truth(s.OwnersKnown))
	}
	single("gpu_exporter_collection_timestamp_seconds", "When the readings were taken, in seconds since 1970.", float64(s.At.UnixMilli())/1000)
	single("gpu_exporter_collection_duration_seconds", "How long that took.", s.Took.Seconds())
	if len(v.Unavailable) > 0 {
		head(b, "gpu_exporter_counter_unavailable", "gauge", "Counters that were asked for and cannot be read.")
		for _, c := range v.Unavailable {
			line(b, "gpu_exporter_counter_unavailable", []pair{{"field", c.Field}}, 1)
		}
	}
}

// truth is 1 for true.
func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// head prints what a metric is.
func head(b *strings.Builder, name, kind, help string) {
	fmt.Fprintf(b, "# HELP %s %s\n# TYPE %s %s\n", name, strings.NewReplacer(`\`, `\\`, "\n", `\n`).Replace(help), name, kind)
}

// line prints one series; label values are escaped.
func line(b *strings.Builder, name string, labels []pair, value float64) {
	b.WriteString(name)
	escape := strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
	for i, l := range labels {
		b.WriteString(map[bool]string{true: "{", false: ","}[i == 0])
		b.WriteString(l.name + `="` + escape.Replace(l.value) + `"`)
	}
	if len(labels) > 0 {
		b.WriteByte('}')
	}
	b.WriteString(" " + number(value) + "\n")
}

// number prints a value without an exponent as long as it is exact.
func number(v float64) string {
	if v == float64(int64(v)) {
		return strconv.FormatInt(int64(v), 10)
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}
