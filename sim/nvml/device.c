/* Questions about one device that the record answers directly. */
#include "nvml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

EXPORT ret nvmlDeviceGetName(dev_t_ d, char *v, uint n)
{
	const struct sim_table *t;
	char name[256];
	struct mig m;
	ret r = enter_any(d, &t, &m);

	if (r != OK)
		return r;
	snprintf(name, sizeof(name), "%s%s%s", sim_text(t, "name", ""), m.uuid[0] ? " MIG " : "", m.profile);
	r = copy_text(name, v, n);
	leave();
	return r;
}

EXPORT ret nvmlDeviceGetUUID(dev_t_ d, char *v, uint n)
{
	const struct sim_table *t;
	struct mig m;
	ret r = enter_any(d, &t, &m);

	if (r != OK)
		return r;
	r = copy_text(m.uuid[0] ? m.uuid : sim_text(t, "uuid", ""), v, n);
	leave();
	return r;
}

EXPORT ret nvmlDeviceGetSerial(dev_t_ d, char *v, uint n) { return text(d, "serial", v, n); }
EXPORT ret nvmlDeviceGetVbiosVersion(dev_t_ d, char *v, uint n) { return text(d, "vbios", v, n); }
EXPORT ret nvmlDeviceGetBoardPartNumber(dev_t_ d, char *v, uint n) { return text(d, "part_number", v, n); }
EXPORT ret nvmlDeviceGetInforomImageVersion(dev_t_ d, char *v, uint n) { return text(d, "inforom", v, n); }
EXPORT ret nvmlDeviceGetMinorNumber(dev_t_ d, uint *v) { return number_u(d, "minor", v); }
EXPORT ret nvmlDeviceGetBrand(dev_t_ d, uint *v) { return number_u(d, "brand", v); }
EXPORT ret nvmlDeviceGetArchitecture(dev_t_ d, uint *v) { return number_u(d, "architecture", v); }
EXPORT ret nvmlDeviceGetNumaNodeId(dev_t_ d, uint *v) { return number_u(d, "numa", v); }
EXPORT ret nvmlDeviceGetPersistenceMode(dev_t_ d, uint *v) { return number_u(d, "persistence", v); }
EXPORT ret nvmlDeviceGetComputeMode(dev_t_ d, uint *v) { return number_u(d, "compute_mode", v); }
EXPORT ret nvmlDeviceGetDisplayMode(dev_t_ d, uint *v) { return number_u(d, "display", v); }
EXPORT ret nvmlDeviceGetDisplayActive(dev_t_ d, uint *v) { return number_u(d, "display", v); }
EXPORT ret nvmlDeviceGetPerformanceState(dev_t_ d, uint *v) { return number_u(d, "pstate", v); }
EXPORT ret nvmlDeviceGetPowerState(dev_t_ d, uint *v) { return number_u(d, "pstate", v); }
EXPORT ret nvmlDeviceGetFanSpeed(dev_t_ d, uint *v) { return number_u(d, "fan", v); }
EXPORT ret nvmlDeviceGetPcieReplayCounter(dev_t_ d, uint *v) { return number_u(d, "pcie.replay", v); }
EXPORT ret nvmlDeviceGetCurrPcieLinkGeneration(dev_t_ d, uint *v) { return number_u(d, "pcie.generation", v); }
EXPORT ret nvmlDeviceGetMaxPcieLinkGeneration(dev_t_ d, uint *v) { return number_u(d, "pcie.generation", v); }
EXPORT ret nvmlDeviceGetCurrPcieLinkWidth(dev_t_ d, uint *v) { return number_u(d, "pcie.width", v); }
EXPORT ret nvmlDeviceGetMaxPcieLinkWidth(dev_t_ d, uint *v) { return number_u(d, "pcie.width", v); }
EXPORT ret nvmlDeviceGetCurrentClocksThrottleReasons(dev_t_ d, u64 *v) { return number_ull(d, "throttle", 1, v); }
EXPORT ret nvmlDeviceGetCurrentClocksEventReasons(dev_t_ d, u64 *v) { return number_ull(d, "throttle", 1, v); }
EXPORT ret nvmlDeviceGetNumGpuCores(dev_t_ d, uint *v) { return number_u(d, "cores", v); }
EXPORT ret nvmlDeviceGetMemoryBusWidth(dev_t_ d, uint *v) { return number_u(d, "memory.bus_width", v); }

/* Power: the record has watts, NVML answers milliwatts. */
static ret milliwatts(dev_t_ d, const char *key, uint *v)
{
	u64 mw = 0;
	ret r = number_ull(d, key, 1000, &mw);

	if (r == OK)
		*v = (uint)mw;
	return r;
}

EXPORT ret nvmlDeviceGetPowerUsage(dev_t_ d, uint *v) { return milliwatts(d, "power", v); }
EXPORT ret nvmlDeviceGetPowerManagementLimit(dev_t_ d, uint *v) { return milliwatts(d, "power.limit", v); }
EXPORT ret nvmlDeviceGetPowerManagementDefaultLimit(dev_t_ d, uint *v) { return milliwatts(d, "power.limit", v); }
EXPORT ret nvmlDeviceGetEnforcedPowerLimit(dev_t_ d, uint *v) { return milliwatts(d, "power.limit", v); }

EXPORT ret nvmlDeviceGetPowerManagementLimitConstraints(dev_t_ d, uint *min, uint *max)
{
	ret r = milliwatts(d, "power.limit", max);

	if (r == OK)
		*min = *max / 4;
	return r;
}

EXPORT ret nvmlDeviceGetTotalEnergyConsumption(dev_t_ d, u64 *v)
{
	const struct sim_table *t;
	ret r = enter(d, &t);

	if (r != OK)
		return r;
	*v = energy_of(t);
	leave();
	return OK;
}

EXPORT ret nvmlDeviceGetTemperature(dev_t_ d, uint sensor, uint *v)
{
	return sensor == 0 ? number_u(d, "temperature", v) : INVALID_ARGUMENT;
}

struct temperature { uint version; uint sensor; int value; };

EXPORT ret nvmlDeviceGetTemperatureV(dev_t_ d, struct temperature *v)
{
	uint c = 0;
	ret r = v ? number_u(d, "temperature", &c) : INVALID_ARGUMENT;

	if (r == OK)
		v->value = (int)c;
	return r;
}

EXPORT ret nvmlDeviceGetTemperatureThreshold(dev_t_ d, uint which, uint *v)
{
	static const char *keys[] = { "temperature.shutdown", "temperature.slowdown", "temperature.memory_max", "temperature.gpu_max" };

	return which < 4 ? number_u(d, keys[which], v) : NOT_SUPPORTED;
}

static ret clock_mhz(dev_t_ d, uint which, uint *v, int max)
{
	static const char *now[] = { "clocks.graphics", "clocks.sm", "clocks.memory", "clocks.video" };
	static const char *top[] = { "clocks.graphics.max", "clocks.sm.max", "clocks.memory.max", "clocks.video.max" };

	return which < 4 ? number_u(d, max ? top[which] : now[which], v) : INVALID_ARGUMENT;
}

EXPORT ret nvmlDeviceGetClockInfo(dev_t_ d, uint which, uint *v) { return clock_mhz(d, which, v, 0); }
EXPORT ret nvmlDeviceGetMaxClockInfo(dev_t_ d, uint which, uint *v) { return clock_mhz(d, which, v, 1); }
EXPORT ret nvmlDeviceGetApplicationsClock(dev_t_ d, uint which, uint *v) { return clock_mhz(d, which, v, 1); }

static void bus_info(const struct sim_table *t, struct pci_info *p)
{
	const char *bus = sim_text(t, "pci.bus_id", "00000000:00:00.0");

	memset(p, 0, sizeof(*p));
	sscanf(bus, "%x:%x:%x", &p->domain, &p->bus, &p->device);
	snprintf(p->bus_id, sizeof(p->bus_id), "%s", bus);
	snprintf(p->bus_id_legacy, sizeof(p->bus_id_legacy), "%04X:%02X:%02X.0", p->domain & 0xffff, p->bus & 0xff, p->device & 0xff);
	p->device_id = (uint)strtoul(sim_text(t, "pci.device_id", "0"), NULL, 16);
	p->subsystem_id = (uint)strtoul(sim_text(t, "pci.subsystem_id", "0"), NULL, 16);
}

EXPORT ret nvmlDeviceGetPciInfo_v3(dev_t_ d, struct pci_info *p)
{
	const struct sim_table *t;
	ret r = enter(d, &t);

	if (r != OK)
		return r;
	bus_info(t, p);
	leave();
	return OK;
}

EXPORT ret nvmlDeviceGetPciInfo_v2(dev_t_ d, struct pci_info_v2 *p)
{
	struct pci_info full;
	ret r = nvmlDeviceGetPciInfo_v3(d, &full);

	if (r != OK)
		return r;
	memset(p, 0, sizeof(*p));
	memcpy(p->bus_id_legacy, full.bus_id_legacy, sizeof(p->bus_id_legacy));
	p->domain = full.domain;
	p->bus = full.bus;
	p->device = full.device;
	p->device_id = full.device_id;
	p->subsystem_id = full.subsystem_id;
	return OK;
}

EXPORT ret nvmlDeviceGetPciInfo(dev_t_ d, struct pci_info_v2 *p) { return nvmlDeviceGetPciInfo_v2(d, p); }

/* A GPU's memory, or that of one partition: its own share, held by its processes. */
EXPORT ret nvmlDeviceGetMemoryInfo_v2(dev_t_ d, struct memory_v2 *m)
{
	const struct sim_table *t;
	struct size size;
	struct mig mig;
	ret r = enter_any(d, &t, &mig);

	if (r != OK)
		return r;
	if (mig.uuid[0] && mig_size(t, mig.profile, &size) == 0) {
		m->total = (u64)size.memory_mib << 20;
		m->reserved = 0;
		m->used = processes_memory(t, mig.gi);
	} else {
		m->total = (u64)sim_number(t, "memory.total", 0, NULL);
		m->reserved = (u64)sim_number(t, "memory.reserved", 0, NULL);
		m->used = (u64)sim_number(t, "memory.used", 0, NULL) + processes_memory(t, WHOLE_GPU);
	}
	if (m->used > m->total)
		m->used = m->total;
	m->free = m->total > m->used + m->reserved ? m->total - m->used - m->reserved : 0;
	leave();
	return OK;
}

EXPORT ret nvmlDeviceGetMemoryInfo(dev_t_ d, struct memory *m)
{
	struct memory_v2 v2;
	ret r = nvmlDeviceGetMemoryInfo_v2(d, &v2);

	if (r != OK)
		return r;
	m->total = v2.total;
	/* the first version counts what the driver reserves as used */
	m->used = v2.used + v2.reserved;
	m->free = v2.free;
	return OK;
}

EXPORT ret nvmlDeviceGetBAR1MemoryInfo(dev_t_ d, struct bar1 *b)
{
	const struct sim_table *t;
	ret r = enter(d, &t);

	if (r != OK)
		return r;
	b->total = (u64)sim_number(t, "bar1.total", 0, NULL);
	b->used = (u64)sim_number(t, "bar1.used", 0, NULL);
	b->free = b->total - b->used;
	leave();
	return OK;
}

EXPORT ret nvmlDeviceGetUtilizationRates(dev_t_ d, struct utilization *u)
{
	ret r = number_u(d, "utilisation.gpu", &u->gpu);

	return r == OK ? number_u(d, "utilisation.memory", &u->memory) : r;
}

static ret engine(dev_t_ d, const char *key, uint *v, uint *period)
{
	if (period)
		*period = 167000; /* microseconds, as real drivers sample */
	return number_u(d, key, v);
}

EXPORT ret nvmlDeviceGetEncoderUtilization(dev_t_ d, uint *v, uint *p) { return engine(d, "utilisation.encoder", v, p); }
EXPORT ret nvmlDeviceGetDecoderUtilization(dev_t_ d, uint *v, uint *p) { return engine(d, "utilisation.decoder", v, p); }
EXPORT ret nvmlDeviceGetJpgUtilization(dev_t_ d, uint *v, uint *p) { return engine(d, "utilisation.jpeg", v, p); }
EXPORT ret nvmlDeviceGetOfaUtilization(dev_t_ d, uint *v, uint *p) { return engine(d, "utilisation.ofa", v, p); }

EXPORT ret nvmlDeviceGetCudaComputeCapability(dev_t_ d, int *major, int *minor)
{
	uint a = 0, b = 0;
	ret r = number_u(d, "cc.major", &a);

	if (r == OK)
		r = number_u(d, "cc.minor", &b);
	*major = (int)a;
	*minor = (int)b;
	return r;
}

EXPORT ret nvmlDeviceGetPcieThroughput(dev_t_ d, uint counter, uint *v)
{
	return number_u(d, counter == 0 ? "pcie.tx" : "pcie.rx", v);
}
