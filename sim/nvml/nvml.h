/* What the parts of the simulated libnvidia-ml share. */
#ifndef GPUSIM_NVML_H
#define GPUSIM_NVML_H

#include "abi.h"
#include "state.h"

#define EXPORT __attribute__((visibility("default")))

struct handle {
	uint magic;
	int index; /* of the GPU in the record, not among the visible ones */
	int mig;   /* index of the instance on that GPU; NO_MIG for the GPU itself */
};

#define NO_MIG (-1)

/* What enter_mig answers for a GPU; never leaves the library. */
#define NOT_A_MIG_DEVICE (-1)

/* One partition, and one size that a GPU can be cut into. */
struct mig { uint gi, ci; char profile[32], uuid[64]; };
struct size { uint id, number, slices, memory_slices, instances, multiprocessors, memory_mib, copy, decoders, jpeg, ofa; };

/* Takes the lock and returns the device's table when a call on it may go on: the
 * library is initialised, the handle is one of ours, the GPU neither lost nor
 * hanging. On success the caller must leave(). */
ret enter(dev_t_ d, const struct sim_table **t);
/* The same for a MIG device, whose partition comes out too. */
ret enter_mig(dev_t_ d, const struct sim_table **t, struct mig *m);
/* The same for a device of either kind; m->uuid is empty for a GPU. */
ret enter_any(dev_t_ d, const struct sim_table **t, struct mig *m);
/* The same for calls that are not about one device. */
ret enter_system(struct sim_state **s);
void leave(void);
dev_t_ handle_of(int index);
dev_t_ mig_handle(int index, int mig);

/* The partition at an index of a GPU, and a size by its name; -1 when there is none. */
int mig_at(const struct sim_table *t, int i, struct mig *m);
int mig_size(const struct sim_table *t, const char *profile, struct size *s);
/* Bytes that processes hold on a GPU, or on one GPU instance of it. */
u64 processes_memory(const struct sim_table *t, uint gi);

/* One number of the device into *out; NOT_SUPPORTED when the record lacks it. */
ret number_u(dev_t_ d, const char *key, uint *out);
ret number_ull(dev_t_ d, const char *key, double scale, u64 *out);
/* One text of the device. */
ret text(dev_t_ d, const char *key, char *out, uint size);
ret copy_text(const char *from, char *out, uint size);
/* Energy in millijoule: what was recorded, and the recorded power since then. */
u64 energy_of(const struct sim_table *t);
u64 now_us(void);

#endif
