/* The part of NVML's binary interface that the simulation answers: numbers and
 * layouts as documented in the NVML API reference; checked against go-nvml's own
 * types by the tests. */
#ifndef GPUSIM_NVML_ABI_H
#define GPUSIM_NVML_ABI_H

#include <stdint.h>

typedef unsigned int uint;
typedef unsigned long long u64;
typedef int ret;
typedef struct handle *dev_t_;

enum {
	OK = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NO_PERMISSION = 4,
	NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9, TIMEOUT = 10,
	GPU_IS_LOST = 15, LIB_RM_VERSION_MISMATCH = 18, UNKNOWN = 999
};

struct pci_info {
	char bus_id_legacy[16];
	uint domain, bus, device, device_id, subsystem_id;
	char bus_id[32];
};

struct pci_info_v2 {
	char bus_id_legacy[16];
	uint domain, bus, device, device_id, subsystem_id, reserved[4];
};

struct memory { u64 total, free, used; };
struct memory_v2 { uint version; u64 total, reserved, free, used; };
struct bar1 { u64 total, free, used; };
struct utilization { uint gpu, memory; };
struct process { uint pid; u64 memory; uint gi, ci; }; /* second and third version of the call */
struct event { dev_t_ device; u64 type, data; uint gi, ci; };

union value { double d; int si; uint ui; unsigned long ul; u64 ull; long long sll; unsigned short us; };

struct field {
	uint id, scope;
	long long timestamp, latency;
	int type;
	ret result;
	union value value;
};

/* Layouts that callers were compiled against; the numbers are of x86-64 and arm64. */
_Static_assert(sizeof(struct pci_info) == 68, "nvmlPciInfo_t");
_Static_assert(sizeof(struct memory) == 24, "nvmlMemory_t");
_Static_assert(sizeof(struct memory_v2) == 40, "nvmlMemory_v2_t");
_Static_assert(sizeof(struct process) == 24, "nvmlProcessInfo_t");
_Static_assert(sizeof(struct event) == 32, "nvmlEventData_t");
_Static_assert(sizeof(struct field) == 40, "nvmlFieldValue_t");

/* Value types of fields. */
enum { TYPE_DOUBLE = 0, TYPE_UINT = 1, TYPE_ULONG = 2, TYPE_ULL = 3, TYPE_LL = 4, TYPE_INT = 5, TYPE_USHORT = 6 };

/* Event types. */
#define EVENT_SINGLE_BIT_ECC 1ull
#define EVENT_DOUBLE_BIT_ECC 2ull
#define EVENT_XID 8ull

/* Instance id of an event that concerns the whole GPU. */
#define WHOLE_GPU 0xFFFFFFFFu

#endif
