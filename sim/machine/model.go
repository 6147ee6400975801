package machine

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"sort"
	"strings"

	"sigs.k8s.io/yaml"
)

// Slot is where a GPU sits on the board.
type Slot struct {
	// Bus is the PCI address (0000:19:00.0).
	Bus string `json:"bus"`
	// NUMA is the NUMA node of the slot; -1 when the machine has none.
	NUMA int `json:"numa"`
}

// Model is one kind of GPU with the board that it comes on.
type Model struct {
	// Product is the name that NVML gives.
	Product string `json:"product"`
	// DeviceID and SubsystemID are PCI ids in NVML's packing: device, then vendor.
	DeviceID    string `json:"deviceID"`
	SubsystemID string `json:"subsystemID"`
	// Class is the PCI class, six digits.
	Class string `json:"class"`
	// Cuda is the highest CUDA version as NVML tells it: 12040 is 12.4.
	Cuda int `json:"cuda"`
	// Values are what NVML answers, by key of the record; the same for all GPUs of
	// the model when idle.
	Values map[string]string `json:"values"`
	// MIGProfiles are the sizes that a GPU can be cut into; none for a model that
	// cannot be partitioned.
	MIGProfiles []MIGProfile `json:"migProfiles,omitempty"`
	// Slots bound how many GPUs a machine of this model can have.
	Slots []Slot `json:"slots"`
}

// ParseModel reads a model file; name is for messages.
func ParseModel(name string, data []byte) (Model, error) {
	var m Model
	if err := yaml.UnmarshalStrict(data, &m); err != nil {
		return m, fmt.Errorf("reading machine model %q: %w", name, err)
	}
	for field, v := range map[string]string{"product": m.Product, "deviceID": m.DeviceID, "class": m.Class} {
		if v == "" {
			return m, fmt.Errorf("machine model %q: field %q is missing", name, field)
		}
	}
	if len(m.Slots) == 0 {
		return m, fmt.Errorf("machine model %q: field %q is empty: it bounds how many GPUs fit", name, "slots")
	}
	for _, key := range []string{"memory.total", "architecture", "cc.major", "temperature", "power"} {
		if m.Values[key] == "" {
			return m, fmt.Errorf("machine model %q: field %q is missing", name, "values."+key)
		}
	}
	for _, p := range m.MIGProfiles {
		if err := p.check(); err != nil {
			return m, fmt.Errorf("machine model %q: %w", name, err)
		}
	}
	for key, v := range m.Values {
		if err := checkValue(key, v); err != nil {
			return m, fmt.Errorf("machine model %q: %w", name, err)
		}
	}
	return m, nil
}

// Machine is the hardware of one node.
type Machine struct {
	// Node names the machine; uuids and serial numbers follow from it.
	Node string `json:"node"`
	// Cuda is the highest CUDA version, as in Model.
	Cuda int   `json:"cuda"`
	GPUs []GPU `json:"gpus"`
}

// GPU is one GPU of a machine.
type GPU struct {
	Minor    int               `json:"minor"`
	Bus      string            `json:"bus"`
	NUMA     int               `json:"numa"`
	DeviceID string            `json:"deviceID"`
	Class    string            `json:"class"`
	Product  string            `json:"product"`
	Values   map[string]string `json:"values"`
}

// Make builds the machine of a node with count GPUs of a model. The same node
// name gives the same machine, also when it is built anew.
func Make(node string, m Model, count int) (Machine, error) {
	if count < 1 || count > len(m.Slots) {
		return Machine{}, fmt.Errorf("a machine of %q has 1 to %d GPUs, not %d", m.Product, len(m.Slots), count)
	}
	out := Machine{Node: node, Cuda: m.Cuda}
	for i, s := range m.Slots[:count] {
		v := map[string]string{}
		maps.Copy(v, m.Values)
		id := identity(node, i)
		v["uuid"], v["serial"] = "GPU-"+id, serial(node, i)
		v["name"], v["minor"], v["numa"] = m.Product, fmt.Sprint(i), fmt.Sprint(s.NUMA)
		v["pci.bus_id"] = strings.ToUpper("0000" + s.Bus)
		v["pci.device_id"], v["pci.subsystem_id"] = m.DeviceID, m.SubsystemID
		for _, p := range m.MIGProfiles {
			v[profilePrefix+p.Name] = p.value()
		}
		out.GPUs = append(out.GPUs, GPU{
			Minor: i, Bus: strings.ToLower(s.Bus), NUMA: s.NUMA, DeviceID: m.DeviceID[2:6], Class: m.Class,
			Product: m.Product, Values: v,
		})
	}
	return out, nil
}

// identity is a UUID that follows from node and index.
func identity(node string, index int) string {
	return hexIdentity(sha256.Sum256(fmt.Appendf(nil, "gpusim %s %d", node, index)))
}

// hexIdentity writes the start of a hash in the form of a UUID.
func hexIdentity(sum [sha256.Size]byte) string {
	h := hex.EncodeToString(sum[:16])
	return fmt.Sprintf("%s-%s-%s-%s-%s", h[:8], h[8:12], h[12:16], h[16:20], h[20:])
}

// serial is a thirteen digit serial number that follows from node and index.
func serial(node string, index int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "gpusim serial %s %d", node, index))
	n := uint64(0)
	for _, b := range sum[:6] {
		n = n<<8 | uint64(b)
	}
	return fmt.Sprintf("%013d", n%1e13)
}

// Format renders a machine as YAML.
func Format(m Machine) ([]byte, error) { return yaml.Marshal(m) }

// Parse reads a machine file; a file without GPUs is a machine without GPUs.
func Parse(data []byte) (Machine, error) {
	var m Machine
	if err := yaml.UnmarshalStrict(data, &m); err != nil {
		return m, fmt.Errorf("reading machine description: %w", err)
	}
	return m, nil
}

// Keys are the keys that may be set at run time, in order.
func Keys() []string {
	keys := make([]string, 0, len(settable()))
	for k := range settable() {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
