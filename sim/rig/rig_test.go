package rig

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/NVIDIA/go-nvlib/pkg/nvlib/device"
	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"
)

// TestLayouts: what our library's own source asserts about its structures is what
// callers were compiled with.
func TestLayouts(t *testing.T) {
	for name, tc := range map[string]struct{ got, want uintptr }{
		"PciInfo":                {unsafe.Sizeof(nvml.PciInfo{}), 68},
		"Memory":                 {unsafe.Sizeof(nvml.Memory{}), 24},
		"Memory_v2":              {unsafe.Sizeof(nvml.Memory_v2{}), 40},
		"ProcessInfo":            {unsafe.Sizeof(nvml.ProcessInfo{}), 24},
		"FieldValue":             {unsafe.Sizeof(nvml.FieldValue{}), 40},
		"DeviceAttributes":       {unsafe.Sizeof(nvml.DeviceAttributes{}), 40},
		"GpuInstanceProfileInfo": {unsafe.Sizeof(nvml.GpuInstanceProfileInfo{}), 48},
	} {
		if tc.got != tc.want {
			t.Errorf("nvml.%s has %d bytes, the simulation's has %d", name, tc.got, tc.want)
		}
	}
}

// open is an initialised library of a loaded machine with two H100s.
func open(t *testing.T) (*Rig, nvml.Interface) {
	t.Helper()
	r := New(t, "..", "H100-SXM5-80GB", "n", 2)
	r.Load(t)
	lib := nvml.New(nvml.WithLibraryPath(r.Library()))
	must(t, "Init", lib.Init())
	t.Cleanup(func() { must(t, "Shutdown", lib.Shutdown()) })
	return r, lib
}

func must(t *testing.T, what string, ret nvml.Return) {
	t.Helper()
	if ret != nvml.SUCCESS {
		t.Fatalf("%s: %v", what, ret)
	}
}

func handle(t *testing.T, lib nvml.Interface, i int) nvml.Device {
	t.Helper()
	d, ret := lib.DeviceGetHandleByIndex(i)
	must(t, "DeviceGetHandleByIndex", ret)
	return d
}

// TestEveryXIDIsOneEvent, also those that come between two waits, on any GPU.
func TestEveryXIDIsOneEvent(t *testing.T) {
	r, lib := open(t)
	r.Set(t, 0, "xid=13") // before the set was made: nobody hears of it
	set, ret := lib.EventSetCreate()
	must(t, "EventSetCreate", ret)
	defer set.Free()
	for i := range 2 {
		must(t, "RegisterEvents", handle(t, lib, i).RegisterEvents(nvml.EventTypeXidCriticalError, set))
	}
	r.Set(t, 0, "xid=31", "xid=31")
	r.Set(t, 1, "xid=79")
	r.Set(t, 0, "xid=43")
	var got []string
	for {
		e, ret := set.Wait(0)
		if ret == nvml.ERROR_TIMEOUT {
			break
		}
		must(t, "Wait", ret)
		i, ret := e.Device.GetIndex()
		must(t, "GetIndex", ret)
		got = append(got, fmt.Sprintf("%d:%d", i, e.EventData))
	}
	if d := cmp.Diff([]string{"0:31", "0:31", "0:43", "1:79"}, got); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
	many := strings.Fields(strings.Repeat("xid=1 ", 30))
	r.Set(t, 0, append(many, "xid=2")...)
	var last uint64
	n := 0
	for ; ; n++ {
		e, ret := set.Wait(0)
		if ret != nvml.SUCCESS {
			break
		}
		last = e.EventData
	}
	if n == 0 || n > 12 || last != 2 {
		t.Errorf("after a burst of 31: %d events, the last %d; want the newest ones", n, last)
	}
}

func TestNothingIsLostWhenManySet(t *testing.T) {
	r, lib := open(t)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			if err := r.host.Set(i%2, []string{fmt.Sprintf("process.%d=%d:1048576", i, 100+i)}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for i := range 2 {
		d := handle(t, lib, i)
		p, ret := d.GetComputeRunningProcesses()
		must(t, "GetComputeRunningProcesses", ret)
		m, ret := d.GetMemoryInfo_v2()
		must(t, "GetMemoryInfo_v2", ret)
		if len(p) != 4 || m.Used != 4<<20 {
			t.Errorf("GPU %d has %d processes that hold %d bytes, want 4 and %d", i, len(p), m.Used, 4<<20)
		}
	}
}

func TestAnswers(t *testing.T) {
	r, lib := open(t)
	d := handle(t, lib, 0)
	before, ret := d.GetTotalEnergyConsumption()
	must(t, "GetTotalEnergyConsumption", ret)
	r.Set(t, 0, "power=350.5")
	fields := []nvml.FieldValue{{FieldId: nvml.FI_DEV_POWER_INSTANT}, {FieldId: nvml.FI_DEV_NVLINK_SPEED_MBPS_COMMON}, {FieldId: nvml.FI_DEV_GET_GPU_RECOVERY_ACTION}}
	must(t, "GetFieldValues", d.GetFieldValues(fields))
	if v := *(*uint32)(unsafe.Pointer(&fields[0].Value)); v != 350500 {
		t.Errorf("power of this moment is %d mW, want 350500", v)
	}
	if v := *(*uint32)(unsafe.Pointer(&fields[1].Value)); v != 26562 {
		t.Errorf("a link's speed is %d MB/s, want 26562", v)
	}
	if nvml.Return(fields[2].NvmlReturn) != nvml.ERROR_NOT_SUPPORTED {
		t.Errorf("recovery action of a driver of branch 550: %v", nvml.Return(fields[2].NvmlReturn))
	}
	after, ret := d.GetTotalEnergyConsumption()
	must(t, "GetTotalEnergyConsumption", ret)
	if after <= before {
		t.Errorf("energy went from %d to %d mJ under power", before, after)
	}
	peer := handle(t, lib, 1)
	r.Set(t, 1, "lost=true")
	if _, ret := d.GetP2PStatus(peer, nvml.P2P_CAPS_INDEX_READ); ret != nvml.ERROR_GPU_IS_LOST {
		t.Errorf("P2P with a lost GPU: %v", ret)
	}
	if _, ret := peer.IsMigDeviceHandle(); ret != nvml.ERROR_GPU_IS_LOST {
		t.Errorf("IsMigDeviceHandle of a lost GPU: %v", ret)
	}
}

func TestNoNUMANode(t *testing.T) {
	r := New(t, "..", "T4", "n", 1)
	r.Load(t)
	lib := nvml.New(nvml.WithLibraryPath(r.Library()))
	must(t, "Init", lib.Init())
	defer lib.Shutdown()
	if v, ret := handle(t, lib, 0).GetNumaNodeId(); ret != nvml.ERROR_NOT_SUPPORTED {
		t.Errorf("NUMA node of a machine without: %d, %v", v, ret)
	}
	if err := r.host.Set(0, []string{"mig=on"}); err == nil || !strings.Contains(err.Error(), "cannot be partitioned") {
		t.Errorf("MIG on a T4: %v", err)
	}
}

// TestMIG: the vendor's own library finds the partitions and names their sizes.
func TestMIG(t *testing.T) {
	r, lib := open(t)
	visit := func() []string {
		var out []string
		err := device.New(lib).VisitMigDevices(func(i int, d device.Device, j int, m device.MigDevice) error {
			p, err := m.GetProfile()
			if err != nil {
				return err
			}
			mem, ret := m.GetMemoryInfo()
			uuid, r2 := m.GetUUID()
			name, r3 := m.GetName()
			back, r4 := lib.DeviceGetHandleByUUID(uuid)
			gi, r5 := m.GetGpuInstanceId()
			if err := errors.Join(fail(ret), fail(r2), fail(r3), fail(r4), fail(r5)); err != nil {
				return err
			}
			if again, ret := back.GetUUID(); ret != nvml.SUCCESS || again != uuid || !strings.HasPrefix(uuid, "MIG-") {
				t.Errorf("by UUID %q we find %q, %v", uuid, again, ret)
			}
			if temp, ret := m.GetTemperature(nvml.TEMPERATURE_GPU); ret != nvml.ERROR_NOT_SUPPORTED {
				t.Errorf("a partition has a temperature of its own: %d, %v", temp, ret)
			}
			out = append(out, fmt.Sprintf("%d/%d %s gi %d, %d MiB used %d: %s", i, j, p, gi, mem.Total>>20, mem.Used>>20, name))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if got := visit(); got != nil {
		t.Errorf("partitions before there are any: %v", got)
	}
	r.Set(t, 1, "mig=3g.40gb,2g.20gb,1g.10gb,1g.10gb", "process.1=4711:1048576:8:0")
	want := []string{
		"1/0 3g.40gb gi 1, 40448 MiB used 0: NVIDIA H100 80GB HBM3 MIG 3g.40gb",
		"1/1 2g.20gb gi 3, 20096 MiB used 0: NVIDIA H100 80GB HBM3 MIG 2g.20gb",
		"1/2 1g.10gb gi 7, 9984 MiB used 0: NVIDIA H100 80GB HBM3 MIG 1g.10gb",
		"1/3 1g.10gb gi 8, 9984 MiB used 1: NVIDIA H100 80GB HBM3 MIG 1g.10gb",
	}
	if d := cmp.Diff(want, visit()); d != "" {
		t.Errorf("partitions (-want +got):\n%s", d)
	}
	gone, ret := handle(t, lib, 1).GetMigDeviceHandleByIndex(3)
	must(t, "GetMigDeviceHandleByIndex", ret)
	r.Set(t, 1, "mig=on")
	if _, ret := gone.GetUUID(); ret != nvml.ERROR_INVALID_ARGUMENT {
		t.Errorf("a destroyed partition answers %v", ret)
	}
	for value, want := range map[string]string{
		"3g.40gb,3g.40gb,1g.10gb": "do not fit",
		"5g.60gb":                 "is none of this GPU's sizes: 1g.10gb, 1g.20gb, 2g.20gb, 3g.40gb, 4g.40gb, 7g.80gb",
	} {
		if err := r.host.Set(0, []string{"mig=" + value}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("mig=%s: %v, want %q", value, err, want)
		}
	}
}

func fail(r nvml.Return) error {
	if r == nvml.SUCCESS {
		return nil
	}
	return r
}
