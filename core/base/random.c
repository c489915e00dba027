/* SPDX-License-Identifier: MIT */
/*
** Philox4x32-10, a counter-based generator: block i of a seed is a pure function of both, so the
** numbers do not depend on who draws them or in which order.
**
** Salmon, Moraes, Dror, Shaw: Parallel Random Numbers: As Easy as 1, 2, 3 (SC11); constants and
** round function of its section 3.3.
*/
#include <stdatomic.h>
#include <sys/random.h>
#include <time.h>

#include "base/base.h"

struct rg_generator {
  _Atomic int64_t refs;
  _Atomic uint64_t seed;
  _Atomic uint64_t offset;
};

/* -- Philox ------------------------------------------------------------------ */

void rg_philox(uint64_t seed, uint64_t index, uint32_t out[4])
{
  uint32_t c0 = (uint32_t)index;
  uint32_t c1 = (uint32_t)(index >> 32);
  uint32_t c2 = 0;
  uint32_t c3 = 0;
  uint32_t k0 = (uint32_t)seed;
  uint32_t k1 = (uint32_t)(seed >> 32);

  for (int round = 0; round < 10; round++) {
    uint64_t p0 = (uint64_t)0xD2511F53u * c0;
    uint64_t p1 = (uint64_t)0xCD9E8D57u * c2;
    uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
    uint32_t n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;

    c1 = (uint32_t)p1;
    c3 = (uint32_t)p0;
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  out[0] = c0;
  out[1] = c1;
  out[2] = c2;
  out[3] = c3;
}

/* -- Streams ------------------------------------------------------------------- */

rg_status rg_generator_new(uint64_t seed, rg_generator **out)
{
  rg_generator *generator;

  if (out == NULL) {
    return rg_fail(RG_EARG, "generator: out is NULL");
  }
  generator = rg_host_zeroed(sizeof(*generator));
  if (generator == NULL) {
    return rg_fail(RG_ENOMEM, "generator: no memory for its state");
  }
  atomic_init(&generator->refs, 1);
  atomic_init(&generator->seed, seed);
  *out = generator;
  return RG_OK;
}

rg_generator *rg_generator_retain(rg_generator *generator)
{
  if (generator != NULL) {
    atomic_fetch_add(&generator->refs, 1);
  }
  return generator;
}

void rg_generator_release(rg_generator *generator)
{
  if (generator != NULL && atomic_fetch_sub(&generator->refs, 1) == 1) {
    rg_host_free(generator);
  }
}

uint64_t rg_generator_seed(const rg_generator *generator)
{
  return generator == NULL ? 0 : atomic_load(&generator->seed);
}

uint64_t rg_generator_offset(const rg_generator *generator)
{
  return generator == NULL ? 0 : atomic_load(&generator->offset);
}

void rg_generator_set(rg_generator *generator, uint64_t seed, uint64_t offset)
{
  if (generator != NULL) {
    atomic_store(&generator->seed, seed);
    atomic_store(&generator->offset, offset);
  }
}

uint64_t rg_generator_take(rg_generator *generator, uint64_t n)
{
  return atomic_fetch_add(&generator->offset, n);
}

/* -- The default stream -------------------------------------------------------- */

static rg_generator default_stream = { .refs = 1 };

/* A seed from the system, 53 bits so that Lua and JSON keep it exactly.  Taken at start, so that no
** two threads race for it. */
__attribute__((constructor)) static void seed_from_system(void)
{
  uint64_t seed = 0;
  struct timespec t;

  if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != sizeof(seed)) {
    clock_gettime(CLOCK_REALTIME, &t);
    seed = (uint64_t)t.tv_nsec * 2654435761u ^ (uint64_t)t.tv_sec;
  }
  rg_seed(seed >> 11);
}

rg_generator *rg_generator_default(void)
{
  return &default_stream;
}

void rg_seed(uint64_t seed)
{
  rg_generator_set(&default_stream, seed, 0);
}
