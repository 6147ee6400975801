package inspector

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"gpu-operator/internal/facts"
	"gpu-operator/internal/names"
)

// process is a process of the host, identified by PID and start time.
type process struct {
	pid     string
	ticks   int64
	cmdline facts.Cmdline
}

// processes remembers the two daemons, so that an ordinary look costs two reads
// instead of a walk over every process.
type processes struct {
	kubelet, runtime *process
	endpoint         string
}

// scanRuntime finds which container runtime serves the kubelet: from the kubelet's
// flags and configuration comes the socket, from the socket the kind of runtime,
// and from the processes of that kind the one that listens on it. The owner of the
// socket cannot be asked of the kernel without privilege, so the daemon's own
// address stands for it.
func (s *Scanner) scanRuntime(n *facts.Node) {
	kubelet, program := s.kubelet()
	if kubelet == nil && !s.roots.Host.Exists(names.KubeletConfigFile) && !s.roots.Host.Exists(names.ContainerdConfig) {
		n.RuntimeError = "no kubelet runs, and neither " + names.KubeletConfigFile + " nor " + names.ContainerdConfig + " exists"
		return
	}
	var args facts.Cmdline
	if kubelet != nil {
		args = kubelet.cmdline
	}
	file := names.KubeletConfigFile
	if f := args.Flag("config"); f != "" {
		file = f
	}
	config, _ := read(s.roots.Host, file)
	k, err := facts.KubeletOf(args, config, program.Endpoint)
	if err != nil {
		n.RuntimeError = fmt.Sprintf("%s: %v", file, err)
	}
	n.Kubelet = k
	for _, root := range slices.Compact([]string{names.KubeletRoot, k.RootDir}) {
		if p := path.Join(root, path.Base(names.KubeletDevicePluginDir), "kubelet.sock"); s.roots.Host.Exists(p) {
			n.DevicePluginSockets = append(n.DevicePluginSockets, p)
		}
	}
	d, err := facts.DaemonOf(k.Endpoint)
	if first := facts.Daemons()[0]; err != nil && s.runtime(first, k.Endpoint) != nil {
		d, err = first, nil // a socket of any name that a containerd says it listens on
	}
	if err != nil {
		n.RuntimeError = err.Error()
		return
	}
	s.describeRuntime(n, d)
}

// describeRuntime fills the runtime's version, configuration and start.
func (s *Scanner) describeRuntime(n *facts.Node, d facts.Daemon) {
	p := s.runtime(d, n.Kubelet.Endpoint)
	var args facts.Cmdline
	switch {
	case p != nil:
		args = p.cmdline
		n.Identity.RuntimeStartedAt = p.ticks
	case s.roots.Host.Exists(path.Join(names.ProcDir, "1")):
		n.RuntimeError = fmt.Sprintf("no process %s listens on %s", d.Program, n.Kubelet.Endpoint)
	}
	n.Identity.RuntimeConfigPath = configOf(d, args)
	if data, err := read(s.roots.Host, n.Identity.RuntimeConfigPath); err == nil {
		sum := sha256.Sum256(data)
		n.Identity.RuntimeConfigHash = hex.EncodeToString(sum[:])
	}
	n.Identity.RuntimeVersion = d.Name + "://" + s.version(d, p)
}

// configOf returns the daemon's configuration file.
func configOf(d facts.Daemon, args facts.Cmdline) string {
	if f := args.Flag(d.ConfigFlags...); f != "" {
		return f
	}
	return d.Config
}

// kubelet returns the host's kubelet process and its row of the table.
func (s *Scanner) kubelet() (*process, facts.Embedder) {
	rows := facts.Kubelets()
	row := func(p *process) (facts.Embedder, bool) {
		for _, r := range rows {
			if r.Program == p.cmdline.Name() {
				return r, true
			}
		}
		return facts.Embedder{}, false
	}
	if s.alive(s.procs.kubelet) {
		r, _ := row(s.procs.kubelet)
		return s.procs.kubelet, r
	}
	s.procs.kubelet = s.find(func(p *process) bool { _, ok := row(p); return ok })
	if s.procs.kubelet == nil {
		return nil, rows[0]
	}
	r, _ := row(s.procs.kubelet)
	return s.procs.kubelet, r
}

// runtime returns the daemon's process that listens on endpoint.
func (s *Scanner) runtime(d facts.Daemon, endpoint string) *process {
	if s.procs.endpoint == endpoint && s.alive(s.procs.runtime) {
		return s.procs.runtime
	}
	s.procs.endpoint = endpoint
	s.procs.runtime = s.find(func(p *process) bool {
		return p.cmdline.Name() == d.Program && s.listens(d, p, endpoint)
	})
	return s.procs.runtime
}

// listens says whether a daemon was told to listen on endpoint; one of a kind whose
// address cannot be read does.
func (s *Scanner) listens(d facts.Daemon, p *process, endpoint string) bool {
	if d.AddressFlags == nil {
		return true
	}
	address := p.cmdline.Flag(d.AddressFlags...)
	if address == "" && d.Program == facts.Daemons()[0].Program {
		data, _ := read(s.roots.Host, configOf(d, p.cmdline))
		address = facts.ContainerdAddress(data)
		if address == "" {
			address = names.ContainerdSocket
		}
	}
	return address == "" || s.samePath(strings.TrimPrefix(address, "unix://"), endpoint)
}

// samePath compares two paths of the host with links resolved: /var/run is one.
func (s *Scanner) samePath(a, b string) bool { return s.resolve(a) == s.resolve(b) }

// resolve follows the links in as much of a path as exists.
func (s *Scanner) resolve(p string) string {
	p = path.Clean("/" + p)
	real, err := s.roots.Host.Resolve(p)
	if err == nil || p == "/" {
		return path.Clean("/" + real)
	}
	return path.Join(s.resolve(path.Dir(p)), path.Base(p))
}

// alive says whether a remembered process still runs: PIDs are used again, start
// times are not.
func (s *Scanner) alive(p *process) bool {
	if p == nil {
		return false
	}
	ticks, err := facts.ParseStartTicks([]byte(text(s.roots.Host, path.Join(names.ProcDir, p.pid, "stat"))))
	return err == nil && ticks == p.ticks
}

// find walks over the host's processes and returns the first that fits. Processes of
// containers do not count: a cluster inside a Pod has a kubelet too.
func (s *Scanner) find(fits func(*process) bool) *process {
	pids, _ := list(s.roots.Host, names.ProcDir)
	slices.SortFunc(pids, func(a, b string) int {
		x, _ := strconv.Atoi(a)
		y, _ := strconv.Atoi(b)
		return x - y
	})
	for _, pid := range pids {
		if _, err := strconv.Atoi(pid); err != nil {
			continue
		}
		dir := path.Join(names.ProcDir, pid)
		data, _ := read(s.roots.Host, dir+"/cmdline")
		p := &process{pid: pid, cmdline: facts.ParseCmdline(data)}
		if !fits(p) {
			continue
		}
		if status, err := read(s.roots.Host, dir+"/status"); err == nil && facts.Nested(status) {
			continue
		}
		ticks, err := facts.ParseStartTicks([]byte(text(s.roots.Host, dir+"/stat")))
		if err != nil {
			continue
		}
		p.ticks = ticks
		return p
	}
	return nil
}

// version returns the daemon's version as its binary or its package says it,
// "unknown" when neither does. Asking the daemon would need its socket, which is
// root on the node.
func (s *Scanner) version(d facts.Daemon, p *process) string {
	for _, binary := range s.binaries(d, p) {
		id, err := s.identify(binary)
		if err != nil {
			continue
		}
		key := fmt.Sprintf("%s %v", binary, id)
		if v, ok := s.bins[key]; ok {
			return v
		}
		v := s.readVersion(d, binary)
		clear(s.bins)
		s.bins[key] = v
		return v
	}
	return "unknown"
}

// readVersion reads a binary's build information, then the package data base.
func (s *Scanner) readVersion(d facts.Daemon, binary string) string {
	if f, err := s.roots.Host.Open(binary); err == nil {
		defer f.Close()
		if info, err := buildinfo.Read(f); err == nil {
			if v := d.BinaryVersion(info); v != "" {
				return v
			}
		}
	}
	if status, err := read(s.roots.Host, names.DpkgStatus); err == nil {
		if v := d.PackageVersion(status); v != "" {
			return v
		}
	}
	return "unknown"
}

// binaries are the paths at which the daemon's binary may be.
func (s *Scanner) binaries(d facts.Daemon, p *process) []string {
	if p != nil && path.IsAbs(p.cmdline[0]) {
		return []string{p.cmdline[0]}
	}
	var out []string
	for _, dir := range names.BinaryDirs() {
		out = append(out, path.Join(dir, d.Program))
	}
	return out
}
