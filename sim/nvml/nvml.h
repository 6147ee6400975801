/* What the parts of the simulated libnvidia-ml share. */
#ifndef GPUSIM_NVML_H
#define GPUSIM_NVML_H

#include "abi.h"
#include "state.h"

#define EXPORT __attribute__((visibility("default")))

struct handle {
	uint magic;
	int index; /* in the record, not among the visible ones */
};

/* Takes the lock and returns the device's table when a call on it may go on: the
 * library is initialised, the handle is one of ours, the GPU neither lost nor
 * hanging. On success the caller must leave(). */
ret enter(dev_t_ d, const struct sim_table **t);
/* The same for calls that are not about one device. */
ret enter_system(struct sim_state **s);
void leave(void);
dev_t_ handle_of(int index);

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
